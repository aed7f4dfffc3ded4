"""An operator as the rows of the table read it, and the calls that they make of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ....ir import Graph, Operator, Parameter

_MOST_NUMBERS = 16
"""Elements of a constant that is read as numbers."""


class Call(NamedTuple):
    """A call of a function, of a method or of a sign of PyTorch's.

    Attributes:
        name: of the function: ``F.softmax``, ``torch.cat``; of a method with a dot before it; a sign.
        args: its arguments; `Before` for what the call before it gave.
        kwargs: likewise.
    """

    name: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] = {}


class Before:
    """The results of the preceding call."""


BEFORE = Before()


@dataclass(slots=True)
class Reading:
    """An operator, as a row of the table reads it.

    Attributes:
        graph: the graph that holds it.
        operator: the operator.
        operands: what enters it: a recorded value, a tensor, or None.
        tensor: makes a tensor of an array.
        sizes: name of an open size -> the size.
    """

    graph: Graph
    operator: Operator
    operands: Sequence[Any]
    tensor: Callable[[np.ndarray], Any]
    sizes: Mapping[str, int] = field(default_factory=dict)

    def __getitem__(self, at: int) -> Any:
        return self.operands[at] if at < len(self.operands) else None

    def constant(self, at: int) -> np.ndarray | None:
        """The values of an operand; None where it is computed or missing."""
        operands = self.graph.operands(self.operator.key)
        return self.graph.constant_value(operands[at]) if at < len(operands) else None

    def numbers(self, at: int) -> list[int] | None:
        """The whole numbers of an operand; None where it is computed, missing or long."""
        array = self.constant(at)
        if array is None or array.size > _MOST_NUMBERS or array.dtype.kind not in "iu":
            return None
        return [int(n) for n in array.reshape(-1)]

    def number(self, at: int) -> float | None:
        """The one number of an operand, as it is written; None for anything else."""
        array = self.constant(at)
        if array is None or array.size != 1:
            return None
        return written(array.reshape(())[()].item())

    def shape(self, at: int) -> tuple[int, ...] | None:
        """The sizes of an operand; None where they are not known."""
        operands = self.graph.operands(self.operator.key)
        value = operands[at] if at < len(operands) else None
        type_ = None if value is None else self.graph.type_of(value)
        return None if type_ is None or type_.shape is None else sizes_of(type_.shape, self.sizes)

    def results(self) -> tuple[int, ...] | None:
        """The sizes of its first result; None where they are not known."""
        type_ = self.operator.types[0] if self.operator.types else None
        return None if type_ is None or type_.shape is None else sizes_of(type_.shape, self.sizes)

    def flag(self, name: str) -> bool:
        """Return an attribute that is a flag."""
        return bool(self.operator.int(name))

    def float(self, name: str) -> float:
        """Return a float attribute, to the digits that people write."""
        return written(self.operator.float(name))


def sizes_of(shape: Sequence[object], sizes: Mapping[str, int]) -> tuple[int, ...] | None:
    """The numbers of a shape; None where one is not known."""
    found = [d if isinstance(d, int) else sizes.get(str(d), -1) for d in shape]
    return tuple(found) if min(found, default=0) >= 0 else None


def written(number: Any) -> Any:
    """A number with the digits that people write: a float32 has seven."""
    return float(f"{number:.7g}") if isinstance(number, float) else number


Row = Callable[[Reading], "Call | Sequence[Call] | None"]


def plain(name: str) -> Row:
    """A function of one tensor."""
    return lambda r: Call(name, (r[0],))


def with_attributes(name: str, **attributes: str) -> Row:
    """A function of one tensor with attributes: name of its argument -> that of the attribute."""

    def row(r: Reading) -> Call:
        given = {theirs: r.operator.attribute(mine) for theirs, mine in attributes.items()}
        return Call(name, (r[0],), {name: written(value) for name, value in given.items()})

    return row


def parameter(r: Reading, at: int) -> np.ndarray | None:
    """The values of an operand that is a parameter; None for any other."""
    value = r.graph.operands(r.operator.key)[at]
    node = None if value is None else r.graph.node(value.node)
    return node.data.numpy() if isinstance(node, Parameter) else None


def one(numbers: Sequence[int]) -> Any:
    """Numbers of all axes as they are written: one where they are equal."""
    return numbers[0] if len(set(numbers)) == 1 else tuple(numbers)
