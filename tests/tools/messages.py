"""The messages of the code, as templates: what the catalogue has to have an entry for.

A template is a message in which ``{name}`` stands where the code puts a value. It is read off the code: the
string or f-string that an error, a finding, a hint or a print is given, also by way of a local name, a
conditional expression or a function of the same file.
"""

from __future__ import annotations

import ast
import itertools
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_OUTSIDE = ("tests", "docs", "benchmarks", "examples", ".venv", "out", "build")
_CODE = re.compile(r"[A-Z]{1,2}\d{3}")
_MOST = 12
"""Templates that one expression may have: the product of its conditions."""
_DEPTH = 4
_ENDINGS = 5
"""Letters up to which the two sides of a condition are a plural: `s`, `is` and `are`, `them`."""
_KEYWORDS = {"hint": "hint", "advice": "advice"}
_PRINTS = {"echo", "print_verdict", "doing", "table_of"}
_NOTES = {"note", "notes"}


@dataclass(frozen=True, order=True)
class Template:
    """A message of the code.

    Attributes:
        text: with ``{name}`` for each value.
        kind: "error", "finding", "hint", "advice", "note" or "printed".
        place: file and line.
    """

    text: str
    kind: str
    place: str


@cache
def templates() -> tuple[Template, ...]:
    """Every message that the code has, sorted, each once a kind; all the code is read for it, once."""
    found: dict[tuple[str, str], Template] = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).parts
        if parts[0] in _OUTSIDE or parts[0].startswith("."):
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        reader = _Reader(tree, in_commands=parts[0] in ("commands", "cli.py"))
        for kind, text, line in reader.read():
            if re.search("[A-Za-z]{2}", _without_slots(text)):
                place = f"{'/'.join(parts)}:{line}"
                found.setdefault((text, kind), Template(text, kind, place))
    return tuple(sorted(found.values()))


def _without_slots(text: str) -> str:
    return re.sub(r"\{\w+\}", "", text)


class _Reader:
    """Reads the messages of one file."""

    def __init__(self, tree: ast.Module, *, in_commands: bool) -> None:
        self.tree, self.in_commands = tree, in_commands
        self.scopes = [tree, *(n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef))]
        self.functions = {n.name: n for n in self.scopes if isinstance(n, ast.FunctionDef)}
        self.globals = _assigned(tree)

    def read(self) -> Iterator[tuple[str, str, int]]:
        """Kind, text and line of each message."""
        for scope in self.scopes:
            known = {**self.globals, **_assigned(scope)}
            for node in _own_nodes(scope):
                for kind, value in self._messages(node):
                    for text in self.texts(value, known):
                        yield kind, text.strip().lstrip(">"), value.lineno

    def _messages(self, node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
        if not isinstance(node, ast.Call):
            return
        name = _last_name(node.func)
        first = node.args[0] if node.args else None
        if len(node.args) > 1 and _is_code(first):
            yield ("finding" if "hange" in name else "error"), node.args[1]
        elif len(node.args) > 1 and name == "Change":
            yield "finding", node.args[1]
        elif self.in_commands and name in _PRINTS:
            for argument in node.args:
                yield "printed", argument
        elif name in ("BadParameter", "UsageError"):
            yield "error", node.args[0]
        elif name == "append" and _is_note(node.func):
            yield "note", node.args[0]
        for keyword in node.keywords:
            if keyword.arg in _KEYWORDS:
                yield _KEYWORDS[keyword.arg], keyword.value
            elif name == "Missing" and keyword.arg in ("reason", "instead"):
                yield "hint", keyword.value

    def texts(self, node: ast.expr | None, known: dict[str, list[ast.expr]], depth: int = 0) -> list[str]:
        """Every template that an expression may be; a slot for what is not known."""
        if isinstance(node, ast.Constant):
            return [node.value] if isinstance(node.value, str) else []
        if isinstance(node, ast.IfExp):
            return [*self.texts(node.body, known, depth), *self.texts(node.orelse, known, depth)]
        if isinstance(node, ast.BoolOp):
            return [t for v in node.values for t in self.texts(v, known, depth)]
        if isinstance(node, ast.JoinedStr):
            return self._product(node.values, known, depth)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            return self._product([node.left, node.right], known, depth)
        if depth < _DEPTH and isinstance(node, ast.Name):
            values = known.get(node.id, [])
            return [t for v in values for t in self.texts(v, known, depth + 1)]
        if depth < _DEPTH and isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            function = self.functions.get(node.func.id)
            if function is not None:
                local = {**self.globals, **_assigned(function)}
                returned = [n.value for n in _own_nodes(function) if isinstance(n, ast.Return)]
                return [t for v in returned for t in self.texts(v, local, depth + 1)]
        return []

    def _product(self, parts: list[ast.expr], known: dict[str, list[ast.expr]], depth: int) -> list[str]:
        choices: list[list[str]] = []
        for part in parts:
            if isinstance(part, ast.Constant):
                choices.append([str(part.value)])
                continue
            value = part.value if isinstance(part, ast.FormattedValue) else part
            spoken = isinstance(value, (ast.IfExp, ast.BinOp, ast.JoinedStr, ast.Name))
            texts = self.texts(value, known, depth + 1) if spoken else []
            texts = texts if all(re.search("[a-z]", t) or not t for t in texts) else []
            choices.append(list(dict.fromkeys(texts))[:6] or ["{" + _slot(value) + "}"])
        found = ["".join(each) for each in itertools.islice(itertools.product(*choices), _MOST)]
        return [_numbered(text) for text in found]


def _is_code(node: ast.expr | None) -> bool:
    return (
        isinstance(node, ast.Constant) and isinstance(node.value, str) and bool(_CODE.fullmatch(node.value))
    )


def _is_note(function: ast.expr) -> bool:
    return isinstance(function, ast.Attribute) and _last_name(function.value) in _NOTES


def _last_name(node: ast.expr) -> str:
    """The last name of a dotted one; empty for any other expression."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


@cache
def _own_nodes(scope: ast.AST) -> list[ast.AST]:
    """The nodes of a scope without those of the functions in it."""
    found: list[ast.AST] = []
    queue = list(ast.iter_child_nodes(scope))
    while queue:
        node = queue.pop()
        found.append(node)
        if not isinstance(node, ast.FunctionDef):
            queue += ast.iter_child_nodes(node)
    return found


@cache
def _assigned(scope: ast.Module | ast.FunctionDef) -> dict[str, list[ast.expr]]:
    """What is assigned to each name in a scope, and in the functions that are its statements."""
    found: dict[str, list[ast.expr]] = {}
    for statement in scope.body:
        for node in [statement, *_own_nodes(statement)]:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                found.setdefault(node.targets[0].id, []).append(node.value)
    return found


def _slot(value: ast.expr) -> str:
    """A name for what an expression gives: its last word."""
    if (
        isinstance(value, ast.Call)
        and value.args
        and ast.unparse(value.func) in ("len", "str", "sum", "repr")
    ):
        return "count" if ast.unparse(value.func) in ("len", "sum") else _slot(value.args[0])
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "join":
        return _slot(value.args[0])
    if isinstance(value, (ast.GeneratorExp, ast.ListComp)):
        return _slot(value.generators[0].iter)
    words = re.findall(r"[a-z]\w*", ast.unparse(value), re.IGNORECASE)
    words = [w for w in words if w not in ("self", "0", "in", "for", "if", "else")] or ["value"]
    return words[-1].strip("_").lower() or "value"


def _numbered(text: str) -> str:
    """A template whose slots have one name each; two without a word between them are one."""
    text = re.sub(r"(\{\w+\})(?:\{\w+\})+", r"\1", text)
    seen: dict[str, int] = {}

    def name(found: re.Match[str]) -> str:
        seen[found[1]] = seen.get(found[1], 0) + 1
        return "{" + found[1] + (str(seen[found[1]]) if seen[found[1]] > 1 else "") + "}"

    return re.sub(r"\{([a-zA-Z_]\w*)\}", name, text)


def _print_missing() -> None:
    """Print an entry to be filled for each template that has none: `python tests/tools/messages.py`."""
    from regraft.process.messages import say_lines

    for each in templates():
        if say_lines(re.sub(r"\{\w+\}", "Zq", each.text), "zh").isascii():
            print(f'#: {each.place}\nmsgid {json.dumps(each.text)}\nmsgstr ""\n')


if __name__ == "__main__":
    _print_missing()
