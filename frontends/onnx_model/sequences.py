"""Sequences of known lengths: lists of values while the file is read, of which the graph has no trace."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...ir import Value
from .call import Call

Held = Value | list[Value] | None
"""The content of a name: a tensor, a sequence of them, or nothing."""

Rule = Callable[[Call, Sequence[Held]], Held | list[Held]]


def _list(call: Call, held: Held) -> list[Value]:
    if not isinstance(held, list):
        raise call.unsupported("expected a sequence that is made in the model, of a known length")
    return held


def _place(call: Call, held: Held, length: int, *, behind: int = 0) -> int:
    array = None if held is None or isinstance(held, list) else call.graph.constant_value(held)
    if array is None:
        raise call.unsupported("expected a constant position")
    at = int(array.reshape(-1)[0])
    if not -length <= at < length + behind:
        raise call.unsupported(f"expected a position of {length}, got {at}")
    return at


def _construct(call: Call, given: Sequence[Held]) -> Held:
    if any(isinstance(value, list) for value in given):
        raise call.unsupported("expected tensors, got a sequence of sequences")
    return [value for value in given if isinstance(value, Value)]


def _empty(call: Call, given: Sequence[Held]) -> Held:
    del call, given
    return []


def _at(call: Call, given: Sequence[Held]) -> Held:
    held = _list(call, given[0])
    return held[_place(call, given[1], len(held))]


def _length(call: Call, given: Sequence[Held]) -> Held:
    return call.constant(len(_list(call, given[0])), "int64")


def _insert(call: Call, given: Sequence[Held]) -> Held:
    held = list(_list(call, given[0]))
    at = _place(call, given[2], len(held), behind=1) if len(given) > 2 else len(held)
    assert isinstance(given[1], Value)
    held.insert(at, given[1])
    return held


def _erase(call: Call, given: Sequence[Held]) -> Held:
    held = list(_list(call, given[0]))
    del held[_place(call, given[1], len(held)) if len(given) > 1 else -1]
    return held


def _concat(call: Call, given: Sequence[Held]) -> Held:
    held, axis = _list(call, given[0]), call.take("axis")
    if call.take("new_axis", 0):
        rank = len(call.graph.known_type(held[0]).shape or ()) + 1
        held = [call.op("Unsqueeze", value, call.ints([axis % rank])) for value in held]
        axis %= rank
    return call.op("Concat", *held, axis=axis)


def _split(call: Call, given: Sequence[Held]) -> Held:
    value, axis = given[0], call.take("axis", 0)
    assert isinstance(value, Value)
    shape = call.graph.known_type(value).shape or ()
    length = shape[axis % len(shape)]
    if not isinstance(length, int):
        raise call.unsupported("expected a static size to split")
    sizes = call.graph.constant_value(given[1]) if len(given) > 1 and isinstance(given[1], Value) else None
    if len(given) > 1 and sizes is None:
        raise call.unsupported("expected constant sizes")
    keep = call.take("keepdims", 1)
    if sizes is None:
        parts = [1] * length
    elif sizes.ndim:
        parts = [int(n) for n in sizes]
        keep = 1
    else:
        step = int(sizes)
        parts = [min(step, length - at) for at in range(0, length, step)]
        keep = 1
    found = call.ops("Split", value, call.ints(parts), outputs=len(parts), axis=axis)
    if keep:
        return found
    return [call.op("Squeeze", each, call.ints([axis % len(shape)])) for each in found]


SEQUENCES: dict[str, Rule] = {
    "SequenceConstruct": _construct,
    "SequenceEmpty": _empty,
    "SequenceAt": _at,
    "SequenceLength": _length,
    "SequenceInsert": _insert,
    "SequenceErase": _erase,
    "ConcatFromSequence": _concat,
    "SplitToSequence": _split,
}
"""Operator on sequences -> what it gives, of what its operands stand for."""
