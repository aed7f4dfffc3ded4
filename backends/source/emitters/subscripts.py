"""Subscripts: slices, and members by numbers that are known or computed of sizes."""

from __future__ import annotations

import numpy as np

from ..emitting import Expression, Literal, Refused, View
from ..expressions import ATOM, Element, Part, Slice, call

_OPEN = 1 << 31
"""Ends of at least this mean "to the end", as exporters write them."""


def _subscript(view: View, axis: int, rank: int, index: Part) -> Expression:
    """Return ``x[:, index]``, counted from the end where that is shorter."""
    axis %= rank
    if axis and axis == rank - 1 and rank > 2:
        return Expression((view.atom(), "[..., ", index, "]"))
    return Expression((view.atom(), "[", ":, " * axis, index, "]"))


def gather_by_subscript(view: View) -> Expression | None:
    """Return ``x[:, 1]`` or ``x[2:5]`` for a Gather of known places in a row; None for any other."""
    axis = view.operator.int("axis")
    indices = view.constant(1)
    if view.host(0) == "tuple":
        if indices is None:
            raise Refused
        if indices.ndim == 0:
            return Expression((Element(view.atom(), Literal(int(indices), "index")),), host="int")
        items: list[Part] = []
        for index in indices.reshape(-1):
            items += [view.atom(), "[", Literal(int(index), "index"), "], "]
        return Expression(("(", *items, ")"), host="tuple")
    if indices is not None and indices.ndim == 0:
        return _subscript(view, axis, view.rank(), Literal(int(indices), "index"))
    if indices is not None and indices.ndim == 1 and indices.size and (np.diff(indices) == 1).all():
        start, stop = int(indices[0]), int(indices[-1]) + 1
        if start >= 0 or stop <= 0:
            bounds = [Literal(start, "start")] * bool(start) + [":"] + [Literal(stop, "stop")] * bool(stop)
            return _subscript(view, axis, view.rank(), Expression(tuple(bounds)))
    if view.host(1) == "int":  # computed of sizes, in Python
        return _subscript(view, axis, view.rank(), view.use(1))
    return None


def _bounds(view: View, slot: int, count: int) -> list[Part | int]:
    """Return the bounds of a slice: numbers, or computed sizes."""
    if view.constant(slot) is None:
        return [Element(view.use(slot, ATOM), i) for i in range(count)]
    return list(view.ints(slot))


def slice_by_subscript(view: View, flip: str) -> Expression:
    """Return ``x[:, 1:3]``; `flip` is the function that reverses axes, which no subscript does."""
    host = view.host(0) == "tuple"
    rank = 1 if host else view.rank()
    steps = view.ints(4) if view.has(4) else None
    axes = view.ints(3) if view.has(3) else list(range(len(view.ints(1))))
    steps = [1] * len(axes) if steps is None else steps
    starts, ends = (_bounds(view, slot, len(axes)) for slot in (1, 2))
    by_axis = {a % rank: (s, e, t) for a, s, e, t in zip(axes, starts, ends, steps, strict=True)}
    source, by_axis = (view.atom(), by_axis) if host else _forwards(view, by_axis, flip)
    if not by_axis:
        return source if isinstance(source, Expression) else Expression((source,))
    if host and len(by_axis) == 1 and (bounds := by_axis.get(0)) and bounds[2] == 1:
        start, end, _ = bounds
        first = _bound(start, "start") if not isinstance(start, int) or start else None
        last = _bound(end, "stop") if not isinstance(end, int) or end < _OPEN - 1 else None
        return Expression((Slice(view.atom(), first, last),), host="tuple")
    return Expression((source, "[", *_subscripts(by_axis), "]"), host="tuple" if host else "")


Steps = dict[int, tuple[Part | int, Part | int, int]]
"""Axis -> (start, end, step) of a slice."""


def _forwards(view: View, by_axis: Steps, flip: str) -> tuple[Part, Steps]:
    """Return the value with the axes that are read backwards flipped, and the steps along it that are left.

    Raises:
        Refused: when bounds are computed, from which the flipped bounds would have to be.
    """
    found, shape = dict(by_axis), view.shape()
    for axis, (start, end, step) in by_axis.items():
        if step > 0:
            continue
        size = shape[axis]
        if not isinstance(start, int) or not isinstance(end, int):
            raise Refused
        if isinstance(size, int):
            taken = range(*slice(start, None if end <= -_OPEN else end, step).indices(size))
            first, last = (size - 1 - taken[0], size - taken[-1]) if taken else (0, 0)
        else:  # place i from the front is place -1 - i of the reversed axis; an empty slice is never reversed
            first = 0 if start >= _OPEN - 1 else -1 - start
            last = _OPEN if end <= -_OPEN else -1 - end
        if (first, step) == (0, -1) and last in (size, _OPEN):
            del found[axis]
        else:
            found[axis] = (first, last, -step)
    flipped = tuple(sorted(axis for axis, (_, _, step) in by_axis.items() if step < 0))
    return (call(flip, view.use(0), flipped), found) if flipped else (view.atom(), found)


def _subscripts(by_axis: Steps) -> list[Part]:
    """Return what stands between the brackets, up to the last axis that is cut."""
    parts: list[Part] = []
    for axis in range(max(by_axis) + 1):
        if axis:
            parts.append(", ")
        start, end, step = by_axis.get(axis, (0, _OPEN, 1))
        parts += [_bound(start, "start"), ":"] if not isinstance(start, int) or start else [":"]
        parts += [_bound(end, "stop")] if not isinstance(end, int) or end < _OPEN - 1 else []
        parts += [":", Literal(step, "step")] if step != 1 else []
    return parts


def _bound(bound: Part | int, hint: str) -> Part:
    return Literal(bound, hint) if isinstance(bound, int) else bound
