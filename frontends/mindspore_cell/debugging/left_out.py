"""Finds prints, records and checks of a net under debugging, which change no value and need not compile.

MindIR holds a Print of tensors, but none of a text that was formatted from them, and an assert on a tensor is
control flow. Hooks are functions that the compiler reads by their source, which it refuses of many.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from copy import deepcopy
from functools import wraps
from pathlib import Path
from typing import Any

from ..mindir import Program
from ..plain_source import Attempts, written_plainly

_TOLD = {
    "Print": "Print",
    "TensorDump": "TensorDump",
    "Assert": "assert",
    **dict.fromkeys(
        ("ScalarSummary", "TensorSummary", "ImageSummary", "HistogramSummary"),
        "summary",
    ),
}
"""Primitive -> what it is called in the note."""

_GRADIENTS = ("InsertGradientOf", "HookBackward", "DumpGradient")
"""Primitives that give what they take, and act on its gradient alone."""

_HOOKS = ("_lazy_forward_pre_hook", "_lazy_forward_hook")
_BACKWARD_HOOKS = ("_lazy_backward_pre_hook", "_lazy_backward_hook")


_kept: ContextVar[bool] = ContextVar("kept", default=False)


@contextmanager
def keeping(*, is_kept: bool) -> Iterator[None]:
    """Keep, in a with block, the prints that MindSpore source can hold, if that is wanted."""
    before = _kept.set(is_kept)
    try:
        yield
    finally:
        _kept.reset(before)


def is_keeping() -> bool:
    """Whether what can stand in MindSpore source is to be kept."""
    return _kept.get()


class Debugging:
    """The debugging operators of one capture.

    Args:
        cells: every Cell of the net.
    """

    def __init__(self, cells: Sequence[Any]) -> None:
        self._cells = cells
        self._attempts = Attempts(cells)
        self._places: dict[str, set[str]] = {}
        self._gradients = sorted(
            {type(v).__name__ for cell in cells for v in vars(cell).values()} & set(_GRADIENTS)
        )

    @contextmanager
    def watching_hooks(self) -> Iterator[None]:
        """Watch, in a with block of one run, the forward hooks that return something; then remove the others.

        Whoever borrowed the Cells puts them back.
        """
        held = [(h, n, f) for cell in self._cells for h in _held(cell, _HOOKS) for n, f in h.items()]
        giving: set[int] = set()
        for hooks, number, function in held:
            hooks[number] = _noting(function, giving)
        try:
            with self._attempts.watched():
                yield
        finally:
            for hooks, number, function in held:
                hooks[number] = function
        for hooks, number, function in held:
            if id(function) not in giving:
                del hooks[number]
                self._add("hook", _place_of(function))
        for cell in self._cells:
            for hooks in _held(cell, _BACKWARD_HOOKS):
                for function in hooks.values():
                    self._add("backward hook", _place_of(function))

    @contextmanager
    def leaving_out(self) -> Iterator[None]:
        """Hide asserts and prints of formatted texts in user code from the compiler, in a with block.

        What the compiler does not parse is written as what it does (`plain_source`).
        """
        from mindspore.graph._parse import parser as parsers

        compiler: Any = parsers.Parser
        original = compiler.parse
        parsed: dict[tuple[int, str, int], tuple[Any, Any]] = {}

        def parse(parser: Any) -> Any:
            tokens, tree = original(parser)
            key = id(tree), parser.filename, parser.line_offset
            if key not in parsed:  # once for all Cells of a class
                parsed[key] = tree, without(parser, tree)
            return tokens, parsed[key][1]

        def without(parser: Any, tree: Any) -> Any:
            if tree is None or _is_of_mindspore(parser.filename):
                return tree
            tree = written_plainly(tree, parser.filename, parser.line_offset - 1, self._attempts)
            if is_keeping():
                tree = _Spelled().visit(deepcopy(tree))
            left = [n for n in ast.walk(tree) if isinstance(n, ast.stmt) and _is_left_out(n)]
            if not left:
                return tree
            for node in left:
                if not _is_of_sizes(node):
                    line = parser.line_offset + node.lineno - 1
                    kind = "assert" if isinstance(node, ast.Assert) else "Print"
                    self._add(kind, f"{Path(parser.filename).name}:{line}")
            return _Without().visit(deepcopy(tree))

        compiler.parse = parse
        try:
            yield
        finally:
            compiler.parse = original

    def note(self, program: Program) -> str:
        """Return one note on all of it; empty where there is none."""
        told = [] if is_keeping() else [node.op for node in program.nodes if node.op in _TOLD]
        counts = Counter(_TOLD[op] for op in told)
        for kind, places in self._places.items():
            counts[kind] += len(places)
        said = [f"{n} {_plural(kind, n)}" for kind, n in counts.items()]
        lines = sorted({place for places in self._places.values() for place in places if place})
        where = f" ({', '.join(lines[:3])}{', …' if len(lines) > 3 else ''})" if lines else ""
        what = f"{', '.join(said)}{where} left out: they change no value" if said else ""
        lost = f"what {', '.join(self._gradients)} does to gradients is lost" if self._gradients else ""
        return "; ".join(filter(None, (what, lost)))

    def _add(self, kind: str, place: str) -> None:
        self._places.setdefault(kind, set()).add(place)


def _held(cell: Any, names: Sequence[str]) -> Iterator[Any]:
    """Yield the hooks of a Cell, by their numbers."""
    for name in names:
        found = vars(cell).get(name)
        if found:
            yield found


def _noting(function: Any, giving: set[int]) -> Any:
    @wraps(function)
    def noted(*arguments: Any) -> Any:
        result = function(*arguments)
        if result is not None:
            giving.add(id(function))
        return result

    return noted


def _place_of(function: Any) -> str:
    code = getattr(function, "__code__", None)
    return "" if code is None else f"{Path(code.co_filename).name}:{code.co_firstlineno}"


def _is_of_mindspore(file: str) -> bool:
    import mindspore

    return Path(file).is_relative_to(Path(str(mindspore.__file__)).parent)


def _is_left_out(node: ast.AST) -> bool:
    """Whether a statement is an assert, or a print of a text that is formatted."""
    if isinstance(node, ast.Assert):
        return True
    call = node.value if isinstance(node, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.func.id != "print":
        return False
    return any(_is_formatted(part) for argument in call.args for part in ast.walk(argument))


def _is_formatted(part: ast.AST) -> bool:
    if isinstance(part, ast.Call):
        return isinstance(part.func, ast.Attribute) and part.func.attr in ("format", "asnumpy", "item")
    if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Mod) and isinstance(part.left, ast.Constant):
        return isinstance(part.left.value, str)
    return isinstance(part, ast.JoinedStr)


def _is_of_sizes(node: ast.stmt) -> bool:
    """Whether a statement is an assert that calls nothing of a tensor: the recorded run has checked it."""
    calls = [part.func for part in ast.walk(node) if isinstance(part, ast.Call)]
    plain = all(isinstance(f, ast.Name) and f.id in ("len", "isinstance", "int", "min", "max") for f in calls)
    return isinstance(node, ast.Assert) and plain


class _Spelled(ast.NodeTransformer):
    """Gives ``print`` the parts of a formatted text in place of it, which a graph can hold."""

    def visit_Call(self, node: ast.Call) -> ast.Call:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == "print":
            node.args = [part for argument in node.args for part in _parts(argument)]
        return node


def _parts(argument: ast.expr) -> list[ast.expr]:
    """Return a formatted text's constants, without spaces around them, and what it formats plainly."""
    if not isinstance(argument, ast.JoinedStr):
        return [argument]
    found: list[ast.expr] = []
    for part in argument.values:
        if isinstance(part, ast.FormattedValue):
            if part.conversion != -1 or part.format_spec is not None:
                return [argument]
            found.append(part.value)
        elif isinstance(part, ast.Constant) and isinstance(part.value, str):
            text = part.value.strip()
            found += [ast.copy_location(ast.Constant(text), argument)] if text else []
    return found or [argument]


class _Without(ast.NodeTransformer):
    """Puts ``pass`` in the place of the statements that are left out."""

    def visit(self, node: ast.AST) -> Any:
        """Replace a statement, or look into it."""
        if _is_left_out(node):
            assert isinstance(node, ast.stmt)
            return ast.copy_location(ast.Pass(), node)
        return self.generic_visit(node)


def _plural(kind: str, count: int) -> str:
    if count == 1:
        return kind
    return "summaries" if kind == "summary" else f"{kind}s"
