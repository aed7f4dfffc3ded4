"""The results of two branches as the results of one If: nested alike, and values where they differ."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....ir import TensorType, UnsupportedError, Value, numpy_dtype
from ....ir.dims import Size
from ...arguments import is_list
from ..batch import BatchFill
from ..call import Call
from ..mindir import MONAD, Node
from .closures import UNSET, Again, Closure, Mixed, Slot
from .nested_graphs import NestedBuilder

_NUMBERS = (bool, int, float)


class UnknownShapeError(UnsupportedError):
    """An unset value has no known shape, so zeros cannot stand for it."""


class Join:
    """Joins what two branches give.

    Args:
        parts: builders of the two branches.
        depths: header of a loop that is being read -> how many such loops are around it.
        place: for messages.

    Attributes:
        values: per output, the value of each branch.
    """

    def __init__(
        self, parts: tuple[NestedBuilder, NestedBuilder], depths: dict[str, int], place: str
    ) -> None:
        self.parts, self.depths, self.place = parts, depths, place
        self.values: list[tuple[Value, Value]] = []

    def join(self, first: Any, second: Any) -> Any:
        """Return the joined result, with a `Slot` for each output.

        Raises:
            UnsupportedError: where the two have not one structure or element type.
        """
        headers = [f.header for f in (first, second) if isinstance(f, (Again, Mixed))]
        if headers:
            return self._join_turns(max(headers, key=self.depths.__getitem__), first, second)
        if is_list(first) and is_list(second) and len(first) == len(second):
            return tuple(self.join(a, b) for a, b in zip(first, second, strict=True))
        if first is UNSET and is_list(second):
            return tuple(self.join(UNSET, b) for b in second)
        if second is UNSET and is_list(first):
            return tuple(self.join(a, UNSET) for a in first)
        if _is_same(first, second):
            return first
        if first is UNSET and not isinstance(second, Value):
            return second
        if second is UNSET and not isinstance(first, Value):
            return first
        return self._output(first, second)

    def _join_turns(self, header: str, first: Any, second: Any) -> Any:
        """Join results of which one at least is another turn of a loop."""
        both = isinstance(first, Again) and isinstance(second, Again)
        if both and first.header == second.header:
            return Again(header, self.join(first.state, second.state))
        a, b = _as_mixed(header, first), _as_mixed(header, second)
        parts = ((a.going, b.going), (a.state, b.state), (a.results, b.results))
        return Mixed(header, *(self.join(p, q) for p, q in parts))

    def _output(self, first: Any, second: Any) -> Any:
        types = [_type(f, part) for f, part in zip((first, second), self.parts, strict=True)]
        values: list[Value] = []
        for found, part, other in zip((first, second), self.parts, reversed(types), strict=True):
            values.append(as_value(found, part, self.place, like=other))
        one, two = values
        origins = {part.origin(v) for part, v in zip(self.parts, values, strict=True)}
        if len(origins) == 1 and None not in origins:
            return origins.pop()  # both give the same value of the graph around
        stated = [p.graph.known_type(v) for p, v in zip(self.parts, values, strict=True)]
        ranks = [t.shape if t.shape is None else len(t.shape) for t in stated]
        if stated[0].dtype != stated[1].dtype or ranks[0] != ranks[1]:
            raise self._refused(f"{stated[0]} and {stated[1]}")
        if (one, two) not in self.values:
            self.values.append((one, two))
        return Slot(self.values.index((one, two)))

    def _refused(self, found: str) -> UnsupportedError:
        return UnsupportedError(
            "E203",
            f"expected both branches to give results of one element type and rank, got {found}",
            place=self.place,
            hint="give tensors of one element type and rank, and tuples of one length, in both branches",
        )

    def types(self) -> list[TensorType | None]:
        """Return the types of the outputs: what the branches' have in common."""
        return [
            _common_type(*(part.graph.known_type(v) for part, v in zip(self.parts, pair, strict=True)))
            for pair in self.values
        ]


def as_value(found: Any, builder: Any, place: str, like: TensorType | None = None) -> Value:
    """Return anything that a function gives as a value; what is unset as zeros of a type.

    Raises:
        UnsupportedError: for what is no data.
    """
    if isinstance(found, Value):
        return found
    if found is UNSET and like is not None:
        return _zeros(like, builder, place)
    if isinstance(found, _NUMBERS):
        fits = like is not None and _kind(found) <= _KINDS.get(like.dtype, -1)
        return builder.constant(found, like.dtype if like is not None and fits else _PLAIN[_kind(found)])
    if isinstance(found, (np.ndarray, Size, BatchFill)):
        return _call(found, builder, place).value(0)
    raise UnsupportedError(
        "E203",
        f"expected branches and loops to give tensors, got {_described(found)}",
        place=place,
        hint="return tensors, of one structure in every branch",
    )


def _zeros(type_: TensorType, builder: Any, place: str) -> Value:
    dtype = numpy_dtype(type_.dtype)
    if type_.shape is None or None in type_.shape:
        raise UnknownShapeError(
            "E203",
            f"expected results of a loop with `break` or `return` to have known shapes, got {type_}",
            place=place,
            hint="write the loop's condition so that it ends the loop in place of `break` and `return`",
        )
    if all(isinstance(d, int) for d in type_.shape):
        return builder.constant(np.zeros(tuple(int(d) for d in type_.shape if d is not None), dtype))
    sizes = tuple(d if isinstance(d, int) else Size.of(str(d)) for d in type_.shape)
    return _call(BatchFill(np.zeros((), dtype), sizes), builder, place).value(0)


def _call(found: Any, builder: Any, place: str) -> Call:
    return Call(Node("result", "result"), [found], builder, cell=None, place=place, users=[0])


_PLAIN = ("bool", "int64", "float64")
_KINDS = {"bool": 0, "int64": 1, "int32": 1, "float32": 2, "float64": 2, "float16": 2, "bfloat16": 2}


def _kind(number: bool | float) -> int:
    return 0 if isinstance(number, bool) else 1 if isinstance(number, int) else 2


def _type(found: Any, builder: NestedBuilder) -> TensorType | None:
    """Return the type that a value has, or a number would have."""
    if isinstance(found, Value):
        return builder.graph.known_type(found)
    if isinstance(found, _NUMBERS):
        return TensorType(_PLAIN[_kind(found)], ())
    if isinstance(found, np.ndarray):
        return TensorType(str(found.dtype), found.shape)
    return None


def _common_type(first: TensorType, second: TensorType) -> TensorType:
    if first.shape is None or second.shape is None or len(first.shape) != len(second.shape):
        return first.with_shape(None)
    dims = zip(first.shape, second.shape, strict=True)
    return first.with_shape(tuple(a if a == b else None for a, b in dims))


def _is_same(first: Any, second: Any) -> bool:
    """Whether two results are one constant."""
    if isinstance(first, np.ndarray) and isinstance(second, np.ndarray):
        return (
            first.dtype == second.dtype
            and first.shape == second.shape
            and first.tobytes() == second.tobytes()
        )
    if isinstance(first, (Value, np.ndarray)) or isinstance(second, (Value, np.ndarray)):
        return False
    return first is second or (type(first) is type(second) and first == second)


def _as_mixed(header: str, found: Any) -> Mixed:
    if isinstance(found, Mixed) and found.header == header:
        return found
    if isinstance(found, Again) and found.header == header:
        return Mixed(header, True, found.state, UNSET)
    return Mixed(header, False, UNSET, found)


def _described(found: Any) -> str:
    if found is MONAD:
        return "nothing"
    return "a function" if isinstance(found, Closure) else f"`{found!r}`"
