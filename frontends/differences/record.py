"""The record of one documented difference between PyTorch and MindSpore."""

from __future__ import annotations

import ast
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Difference:
    """A call of torch that means something else in MindSpore when its arguments are carried over.

    The three calls are expressions of `x`, `y` and `z`, of what `given` names, and of `nn`, `ops`, `F` and
    the frameworks. A layer is constructed where it stands: ``nn.GELU()`` alone is called with the inputs,
    ``nn.LSTM(4, 6)(x)[0]`` as it is written.

    Attributes:
        torch: the call in PyTorch.
        naive: what a port writes that carries the arguments over, by place or by name.
        right: what computes torch's.
        here: what the naive port does, as a verb and its object.
        there: what torch's call does, with the same verb left out.
        inputs: the shapes of `x`, `y` and `z`.
        given: further values, as assignments of lists: ``i=[0, 2, 1]``.
        left_out: the argument whose default in MindSpore is another; empty where something else differs.
        code: the finding of `check` that reports it; empty where only `verify` sees it.
        advice: what to write for any call, where the arguments of the right port fit this one alone.
        said: what `verify` says to write; empty where it names no more than the module whose output differs.
    """

    torch: str
    naive: str
    right: str
    here: str
    there: str
    inputs: tuple[str, ...] = ("2x3x4",)
    given: str = ""
    left_out: str = ""
    code: str = ""
    advice: str = ""
    said: str = ""

    @property
    def called(self) -> str:
        """The call of MindSpore that differs, without its arguments: ``ops.std``."""
        return _callee(self.naive)

    @property
    def write(self) -> str:
        """The fix for a port from torch: the arguments that the right port has and the naive one lacks."""
        naive, right = _arguments(self.naive), _arguments(self.right)
        if _callee(self.naive) != _callee(self.right):
            return self.right
        added = [f"{name}={value}" for name, value in right.items() if naive.get(name) != value]
        return ", ".join(added).replace("'", '"') or self.right


def _outermost(source: str) -> ast.Call | None:
    """Return the call in an expression, past subscripts, methods and calls of its layer."""
    node = ast.parse(source, mode="eval").body
    while not isinstance(node, ast.Call) or isinstance(node.func, ast.Call):
        if isinstance(node, ast.Call):
            node = node.func
        elif isinstance(node, ast.Subscript):
            node = node.value
        else:
            return None
    return node


def _callee(source: str) -> str:
    call = _outermost(source)
    return "" if call is None else ast.unparse(call.func)


def _arguments(source: str) -> dict[str, str]:
    call = _outermost(source)
    return {} if call is None else {k.arg: ast.unparse(k.value) for k in call.keywords if k.arg is not None}
