"""Full names of what a file imports from MindSpore, read off its text: nothing is run."""

from __future__ import annotations

import ast
import re
from collections import Counter

_INSIDE = re.compile(
    r"mindspore\.(?:(ops|nn)\.(?:[a-z_]\w*\.)+(?=\w+$)|(?:context|common|train\.serialization)\.(?:[a-z_]\w*\.)*(?=\w+$))"
)
"""Modules that a name is defined in below the one that exports it."""
_OWN = ("mindspore.ops.communication.", "mindspore.nn.probability.")
"""Modules whose names stand for something else than those of the module above."""


class Names:
    """The names that a file binds by imports of MindSpore.

    Args:
        tree: the file's syntax.
        source: its text.
    """

    def __init__(self, tree: ast.Module, source: str) -> None:
        self._source = source
        self._full: dict[str, str] = {}
        stored: Counter[str] = Counter()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for each in node.names:
                    whole = each.name if each.asname else each.name.partition(".")[0]
                    self._bind(each.asname or whole, whole)
            elif isinstance(node, ast.ImportFrom) and not node.level:
                for each in node.names:
                    self._bind(each.asname or each.name, f"{node.module}.{each.name}")
            elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                stored[node.id] += 1
            elif isinstance(node, ast.arg):
                stored[node.arg] += 1
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                stored[node.name] += 1
        for name in stored:
            self._full.pop(name, None)  # a name of the file's own too: nobody knows which one is meant
        self.numbers = {
            statement.targets[0].id
            for statement in tree.body
            if isinstance(statement, ast.Assign)
            and isinstance(statement.targets[0], ast.Name)
            and stored[statement.targets[0].id] == 1
            and is_number(statement.value, ())
        }

    def _bind(self, name: str, full: str) -> None:
        if full == "mindspore" or full.startswith("mindspore."):
            self._full[name] = full

    def __bool__(self) -> bool:
        return bool(self._full)

    def text(self, node: ast.expr) -> str:
        """Return an expression as the file writes it, in one line."""
        segment = ast.get_source_segment(self._source, node)
        return ast.unparse(node) if segment is None or "\n" in segment else segment

    def written(self, node: ast.expr) -> str:
        """Return the full name as the file imports it; empty for anything but a name of MindSpore."""
        names: list[str] = []
        while isinstance(node, ast.Attribute):
            names.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id not in self._full:
            return ""
        return ".".join([self._full[node.id], *reversed(names)])

    def resolve(self, node: ast.expr) -> str:
        """Return the name under which MindSpore's documents have it; empty for anything else."""
        full = self.written(node)
        if full.startswith(_OWN):
            return full
        found = _INSIDE.match(full)
        return (
            full if found is None else ".".join(p for p in ("mindspore", found[1], full[found.end() :]) if p)
        )

    @property
    def root(self) -> str:
        """The name that the package itself has in the file; empty where it has none."""
        return next((name for name, full in self._full.items() if full == "mindspore"), "")


def is_number(node: ast.expr, numbers: set[str] | tuple[()]) -> bool:
    """Whether an expression is a Python number in every run.

    Args:
        node: the expression.
        numbers: names of the file that are numbers.
    """
    if isinstance(node, ast.Constant):
        return isinstance(node.value, (bool, int, float))
    if isinstance(node, ast.Name):
        return node.id in numbers
    if isinstance(node, ast.UnaryOp):
        return is_number(node.operand, numbers)
    if isinstance(node, ast.BinOp):
        return is_number(node.left, numbers) and is_number(node.right, numbers)
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return node.value.id in ("math", "np", "numpy") and node.attr in ("pi", "e", "inf", "nan")
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("float", "int", "len")
    )
