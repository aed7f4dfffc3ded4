"""Reads the rows of the table of differences as ways to write any call of their function of torch."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from ...frontends.differences import COMPUTED, Difference
from ...frontends.function_arguments import KIN
from .calls import given_to
from .hosts import TorchHost
from .tape import Record, Ref, Site

_ROOMS = ("torch", "F", "nn", "ops", "mint", "mnp", "ms")
_NUMBERS = {"inf": math.inf, "nan": math.nan}


@dataclass(frozen=True, slots=True)
class Remedy:
    """The replacement that a row states for its call of torch.

    Attributes:
        arguments: name of an argument -> what the row gives for it: an expression of tensors, or a value.
        right: what computes the same in MindSpore, as an expression of these.
    """

    arguments: Mapping[str, Any]
    right: ast.expr

    def written(self, given: Mapping[str, ast.expr]) -> ast.expr:
        """The right call with other arguments, by name."""
        return _Filling(self.arguments, given).visit(_copied(self.right))


@cache
def remedies() -> Mapping[str, tuple[Remedy, ...]]:
    """Name of a function of torch -> what rows write for it."""
    found: dict[str, list[Remedy]] = {}
    for rows in COMPUTED.values():
        for row in rows:
            known = _remedy(row)
            if known is not None and not any(known[1] == other for other in found.get(known[0], ())):
                found.setdefault(known[0], []).append(known[1])
    return {name: tuple(each) for name, each in found.items()}


def known_as(record: Record) -> str:
    """The name of a function as people write it, without that of its module."""
    return re.sub(r"^_?(linalg|special|fft)_|^_", "", record.name)


def _remedy(row: Difference) -> tuple[str, Remedy] | None:
    """(function of torch, what a row writes for it); None for a layer's row, and where no call stands."""
    torch, right = _met(ast.parse(row.torch, mode="eval").body, ast.parse(row.right, mode="eval").body)
    if isinstance(torch, ast.Attribute):
        return torch.attr, Remedy({"input": torch.value}, right)
    if not isinstance(torch, ast.Call) or not isinstance(torch.func, ast.Attribute):
        return None
    name = torch.func.attr
    if _is_room(torch.func.value) and _root(torch.func.value) == "nn":
        return None
    receiver = [] if _is_room(torch.func.value) else [torch.func.value]
    tensors: list[ast.expr] = []

    def known(argument: ast.expr) -> Any:
        value = _literal(argument)
        if value is not argument:
            return value
        tensors.append(argument)
        return Ref(len(tensors) - 1, 0)

    args = tuple(map(known, (*receiver, *torch.args)))
    kwargs = {k.arg: known(k.value) for k in torch.keywords if k.arg is not None}
    function = None if receiver else _torch(torch.func)
    record = Record(Site("", 0, name), "method" if receiver else "call", function, name, args, kwargs, [])
    return name, Remedy(
        {k: tensors[v.record] if isinstance(v, Ref) else v for k, v in stated(record).items()}, right
    )


def stated(record: Record) -> dict[str, Any]:
    """The arguments that are written in a call of torch, by name; by place where nobody knows the names.

    The first is "input", which functions and methods call otherwise.
    """
    args = record.args
    spread = len(args)
    while spread > 1 and isinstance(args[spread - 1], int) and not isinstance(args[spread - 1], bool):
        spread -= 1
    for known in (args, (*args[:spread], args[spread:])):  # numbers one by one are a list of them
        if known and known[-1] == ():
            continue
        again = Record(record.site, record.kind, record.function, record.name, known, record.kwargs, [])
        given = given_to(again, TorchHost())
        if given is not None:
            first = next(iter(given.values), "")
            return {"input" if k == first else k: v for k, v in given.values.items() if k in given.stated}
    return {"input" if not at else str(at): value for at, value in enumerate(args)} | record.kwargs


def _met(torch: ast.expr, right: ast.expr) -> tuple[ast.expr, ast.expr]:
    """The calls of a row, without what both do to their results."""
    while True:
        if isinstance(torch, ast.Subscript) and isinstance(right, ast.Subscript):
            if ast.dump(torch.slice) != ast.dump(right.slice):
                return torch, right
            torch, right = torch.value, right.value
        elif isinstance(torch, ast.BinOp) and isinstance(right, ast.BinOp):
            same = ast.dump(torch.left) == ast.dump(right.left)
            if same == (ast.dump(torch.right) == ast.dump(right.right)):
                return torch, right
            torch, right = (torch.right, right.right) if same else (torch.left, right.left)
        else:
            return torch, right


class _Filling(ast.NodeTransformer):
    """Puts other arguments into a row's call."""

    def __init__(self, known: Mapping[str, Any], given: Mapping[str, ast.expr]) -> None:
        self._tensors = {
            ast.dump(_plain(value)): given[name]
            for name, value in known.items()
            if isinstance(value, ast.expr) and name in given
        }
        for name, value in known.items():  # of a list of tensors, each as well
            other = given.get(name)
            if isinstance(value, ast.Tuple) and isinstance(other, ast.Tuple):
                self._tensors |= {
                    ast.dump(_plain(a)): b for a, b in zip(value.elts, other.elts, strict=False)
                }
        self._values = {k: v for k, v in known.items() if not isinstance(v, ast.expr) and k in given}
        self._given, self._keyword = given, ""

    def visit(self, node: ast.AST) -> Any:
        """See `ast.NodeTransformer`."""
        if not isinstance(node, ast.expr):
            return super().visit(node)
        found = self._tensors.get(ast.dump(_plain(node)))
        if found is not None:
            return _copied(found)
        value = _literal(node)
        if value is not node:
            names = [k for k, v in self._values.items() if _is_same(v, value)]
            names.sort(key=lambda name: self._keyword not in (name, *KIN.get(name, ())))
            if names:
                return _copied(self._given[names[0]])
        return super().visit(node)

    def visit_keyword(self, node: ast.keyword) -> ast.keyword:
        """See `ast.NodeTransformer`."""
        self._keyword = node.arg or ""
        node.value = self.visit(node.value)
        self._keyword = ""
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """See `ast.NodeTransformer`."""
        if isinstance(node.func, ast.Attribute) and node.func.attr == "reshape":  # whose -1 is no argument
            node.func = self.visit(node.func)
            return node
        self.generic_visit(node)
        return node


def _plain(node: ast.expr) -> ast.expr:
    """An expression with every method written as a function, and without the modules of these."""

    class Plain(ast.NodeTransformer):
        def visit_Call(self, node: ast.Call) -> ast.expr:
            self.generic_visit(node)
            function = node.func
            if isinstance(function, ast.Attribute):
                first = [] if _is_room(function.value) else [function.value]
                return ast.Call(ast.Name(function.attr), [*first, *node.args], node.keywords)
            return node

    return Plain().visit(_copied(node))


def _copied(node: ast.expr) -> ast.expr:
    return ast.parse(ast.unparse(node), mode="eval").body


def _is_room(node: ast.expr) -> bool:
    return _root(node) in _ROOMS


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _literal(node: ast.expr) -> Any:
    """The value that an expression writes out; the expression itself for any other."""
    if isinstance(node, ast.Name) and node.id in _NUMBERS:
        return _NUMBERS[node.id]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = _literal(node.operand)
        return -value if isinstance(value, (int, float)) else node
    try:
        return ast.literal_eval(node)
    except ValueError:
        return node


def _is_same(a: Any, b: Any) -> bool:
    if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)):
        return tuple(a) == tuple(b)
    return type(a) is type(b) and a == b


def _torch(function: ast.expr) -> Any:
    """The function of torch that a name stands for; None where torch has none."""
    import torch

    found: Any = {"torch": torch, "F": torch.nn.functional}.get(_root(function))
    for name in _names(function):
        found = getattr(found, name, None)
    return found


def _names(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Attribute):
        yield from _names(node.value)
        yield node.attr
