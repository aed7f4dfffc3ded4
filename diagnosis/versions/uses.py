"""Finds the uses in a file that a release of MindSpore removes, changes or marks, and the edit of each."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from ...ir import UsageError
from ...passes import Change
from ...passes.base import Severity
from ..editing import Edit
from ..subject import parse_file
from .facts import (
    ASKED,
    BY_NAME_ALONE,
    MOVED_ARGUMENTS,
    NUMBER_FIRST,
    REMOVED_ARGUMENTS,
    REPLACED,
    VERSIONS,
    Fact,
    is_in,
)
from .marked import marked_names
from .names import Names, is_number
from .settings import split_settings

CODES = {
    "MV101": "an argument raises an error in this release of MindSpore",
    "MV102": "a comparison takes no number as its first operand in this release of MindSpore",
    "MV103": "an argument of set_context is marked for removal: a function of its own replaces it",
    "MV104": "a name is marked for removal, and something else does the same",
    "MV105": "a name is marked for removal, and MindSpore names nothing else for it",
}

_SEVERITY: dict[str, Severity] = {"MV101": "error", "MV102": "error", "MV105": "note"}


@dataclass(frozen=True, slots=True)
class Use:
    """A use in a file.

    Attributes:
        change: the finding.
        edits: what makes it good; none where the user has to decide.
        imports: (module, name in it, or "" for the module) that the edits need.
    """

    change: Change
    edits: tuple[Edit, ...] = ()
    imports: tuple[tuple[str, str], ...] = ()


def release_of(stated: str) -> str:
    """Return the release that a user states; of "installed", the installed one.

    Raises:
        UsageError: for a release without facts, and if MindSpore is not installed (E001).
    """
    if stated != "installed":
        if stated not in VERSIONS:
            raise UsageError(
                "E001",
                f"expected a release of MindSpore, got `{stated}`",
                hint=f"it is installed, {', '.join(VERSIONS)}",
            )
        return stated
    try:
        return ".".join(version("mindspore").split(".")[:2])
    except PackageNotFoundError:
        raise UsageError(
            "E001", "expected an installed MindSpore, got none", hint="state a release, such as --for 2.10"
        ) from None


def find_uses(paths: Iterable[Path], release: str) -> list[Use]:
    """Return the uses in files, in the order of their lines; none in files that import no MindSpore."""
    return [use for path in paths for use in _of_file(path, release)]


def _of_file(path: Path, release: str) -> list[Use]:
    tree = parse_file(path)
    if tree is None:
        return []
    names = Names(tree, path.read_text(encoding="utf-8", errors="replace"))
    if not names:
        return []
    finder = _Finder(path.name, names, release)
    return sorted(finder.find(tree), key=lambda use: int(use.change.place.rpartition(":")[2]))


class _Finder:
    def __init__(self, file: str, names: Names, release: str) -> None:
        self.file, self.names, self.release = file, names, release
        rows = [*NUMBER_FIRST, *REPLACED]
        self.named: dict[str, list[Fact]] = {}
        for fact in (row for row in rows if is_in(row, release)):
            self.named.setdefault(fact.name, []).append(fact)
        for name, since in marked_names().items():
            fact = Fact(name, "MV105", since)
            if is_in(fact, release):
                self.named.setdefault(name, []).append(fact)
        self.removed = {fact.argument: fact for fact in REMOVED_ARGUMENTS if is_in(fact, release)}
        self.moved = {fact.argument: fact for fact in MOVED_ARGUMENTS if is_in(fact, release)}

    def find(self, tree: ast.Module) -> Iterator[Use]:
        statements = {
            id(node.value): node
            for node in ast.walk(tree)
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
        }
        called: dict[int, ast.Call] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                called[id(node.func)] = node
                yield from self._of_call(node, id(node) in statements)
        for node in ast.walk(tree):
            if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load):
                yield from self._of_name(node, called.get(id(node)))

    def _use(
        self, fact: Fact, message: str, node: ast.AST, edits: tuple[Edit, ...] = (), *imports: tuple[str, str]
    ) -> Use:
        place = f"{self.file}:{node.lineno}"  # pyright: ignore[reportAttributeAccessIssue] - of an expression
        severity = _SEVERITY.get(fact.code, "warning")
        change = Change(fact.code, message, place, severity, fixed=False, advice=fact.write)
        return Use(change, edits, imports)

    def _of_call(self, call: ast.Call, is_statement: bool) -> Iterator[Use]:
        full = self.names.resolve(call.func)
        if full == "mindspore.set_context":
            yield from self._of_settings(call, is_statement)
        elif full == "mindspore.get_context" and call.args and isinstance(call.args[0], ast.Constant):
            fact = ASKED.get(str(call.args[0].value))
            if fact is not None and is_in(fact, self.release):
                message = f"`{self.names.text(call)}` is marked for removal since MindSpore {fact.since}"
                new = fact.write.replace("mindspore", self.names.root or "mindspore", 1)
                yield self._use(fact, message, call, (_expression(call, new),), *self._package())
        elif isinstance(call.func, ast.Attribute) and call.func.attr in BY_NAME_ALONE and len(call.args) == 2:
            fact = BY_NAME_ALONE[call.func.attr]
            if is_in(fact, self.release) and not any(isinstance(a, ast.Starred) for a in call.args):
                message = (
                    f"`{call.func.attr}` takes `{fact.argument}` by name alone since MindSpore {fact.since}"
                )
                first, second = (self.names.text(a) for a in call.args)
                keywords = "".join(f", {k.arg}={self.names.text(k.value)}" for k in call.keywords)
                new = f"{self.names.text(call.func)}({first}, {fact.argument}={second}{keywords})"
                yield self._use(fact, message, call, (_expression(call, new),))
        yield from self._of_comparison(call)

    def _package(self) -> tuple[tuple[str, str], ...]:
        return () if self.names.root else (("mindspore", ""),)

    def _of_settings(self, call: ast.Call, is_statement: bool) -> Iterator[Use]:
        split = split_settings(call, self.names, set(self.moved), set(self.removed))
        edits: tuple[Edit, ...] = ()
        if is_statement and split is not None:
            *before, last = split
            edits = (*(Edit("before", call.lineno, new=line) for line in before), _expression(call, last))
        for keyword in call.keywords:
            fact = self.removed.get(keyword.arg or "") or self.moved.get(keyword.arg or "")
            if fact is None:
                continue
            if fact.code == "MV101":
                message = f"`set_context` refuses `{fact.argument}` since MindSpore {fact.since}"
            else:
                message = f"`{fact.argument}` of `set_context` is marked for removal"
            yield self._use(fact, message, keyword.value, edits, *self._package())

    def _of_comparison(self, call: ast.Call) -> Iterator[Use]:
        made = call.func.func if isinstance(call.func, ast.Call) else call.func  # ops.Less()(1, x)
        full = self.names.resolve(made)
        fact = next((f for f in self.named.get(full, ()) if f.code == "MV102"), None)
        is_class = full.rpartition(".")[2][:1].isupper()
        if (
            fact is None
            or is_class != isinstance(call.func, ast.Call)
            or len(call.args) != 2
            or call.keywords
        ):
            return
        first, second = call.args
        if not is_number(first, self.names.numbers):
            return
        written = self.names.text(call.func)
        message = f"`{written}` takes no number as its first operand since MindSpore {fact.since}"
        edits: tuple[Edit, ...] = ()
        imports: tuple[tuple[str, str], ...] = ()
        if not is_number(second, self.names.numbers):
            head, imports = self._renamed(made, fact.rename)
            turned = f"{head}()" if is_class else head
            edits = (
                (_expression(call, f"{turned}({self.names.text(second)}, {self.names.text(first)})"),)
                if head
                else ()
            )
        yield self._use(fact, message, call, edits, *imports)

    def _renamed(self, node: ast.expr, name: str) -> tuple[str, tuple[tuple[str, str], ...]]:
        """Return how a file writes another name of the same module, and what it must import for it."""
        module = self.names.written(node).rpartition(".")[0]
        if module not in ("mindspore.ops", "mindspore.mint"):
            return "", ()  # a module inside, which may lack the other name
        if isinstance(node, ast.Attribute):
            return f"{self.names.text(node.value)}.{name}", ()
        return name, ((module, name),)

    def _of_name(self, node: ast.expr, call: ast.Call | None) -> Iterator[Use]:
        full = self.names.resolve(node)
        for fact in self.named.get(full, ()):
            if fact.code == "MV102":
                continue
            message = f"`{self.names.text(node)}` is marked for removal since MindSpore {fact.since}"
            head, imports = self._renamed(node, fact.rename) if fact.rename else ("", ())
            by_place = call is None or not call.keywords  # operands have other names there
            edits = (_expression(node, head),) if head and by_place else ()
            if (
                not edits
                and full == "mindspore.ops.fill"
                and call is not None
                and isinstance(node, ast.Attribute)
            ):
                edits = self._filled(call, node)
            yield self._use(fact, message, node, edits, *(imports if edits else ()))

    def _filled(self, call: ast.Call, function: ast.Attribute) -> tuple[Edit, ...]:
        """Return the edit of `fill`, whose operands stand in another order in `full`."""
        if len(call.args) != 3 or call.keywords or any(isinstance(a, ast.Starred) for a in call.args):
            return ()
        kind, shape, value = (self.names.text(a) for a in call.args)
        head = self.names.text(function.value)
        return (_expression(call, f"{head}.full({shape}, {value}, dtype={kind})"),)


def _expression(node: ast.expr, new: str) -> Edit:
    span = (node.lineno, node.col_offset, node.end_lineno or node.lineno, node.end_col_offset or 0)
    return Edit("expression", node.lineno, new=new, span=span)
