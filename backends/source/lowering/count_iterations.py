"""count-iterations: a Loop that counts its iterations or collects results carries both as state."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ....ir import Builder, Graph, Operator, TensorType, Value, numpy_dtype, walk_operators
from ....passes.base import Change, Pass

_MOST_STORED = 1024
"""Most zeros that are a constant of the file."""


@dataclass(frozen=True)
class CountIterations(Pass):
    """Make a Loop carry its iteration number and the results of its iterations.

    What it does:
        Replaces a Loop with a number of iterations, or with one result per iteration, by one that only
        carries state: the iteration number is a state, which the condition compares with the limit, and
        each result is written to its place in a tensor of as many rows, or where the Loop may end before
        its limit joined to the earlier ones.

    Why:
        Python's `while` has only a condition.

    Leaves alone:
        A Loop that only carries state, and one whose results have unknown shapes.

    Refuses:
        Nothing.

    Example:
        >>> from regraft.ir import parse
        >>> graph = parse('''
        ... graph main {
        ...   module "" Net
        ...   %x = input "x" : f32[4]
        ...   %0 = const 3 : i64[]
        ...   %y = Loop(%0, _, %x) : f32[4] @ "#1" with
        ...     body =
        ...     graph body {
        ...       %iteration = input "iteration" : i64[]
        ...       %keep = input "keep" : bool[]
        ...       %x = input "x" : f32[4]
        ...       %y = Neg(%x) : f32[4]
        ...       return "more" = %keep
        ...       return "y" = %y
        ...     }
        ...   end
        ...   return "y" = %y
        ... }''')
        >>> for change in CountIterations().run(graph):
        ...     print(change)
        MS132 carries its iteration number - at `Loop`
    """

    name: ClassVar[str] = "count-iterations"
    codes: ClassVar[dict[str, str]] = {
        "MS132": "a Loop carries its iteration number and the results of its iterations"
    }

    def run(self, graph: Graph) -> list[Change]:
        """Replace; see the class."""
        changes: list[Change] = []
        for part, node in list(walk_operators(graph)):
            if node.qualified_name == "Loop" and _carry(part, node):
                place = "`Loop`" + (f" ({node.location})" if node.location else "")
                changes.append(Change("MS132", "carries its iteration number", place))
        return changes


def _carry(part: Graph, node: Operator) -> bool:
    """Replace a Loop that counts or collects; False for any other."""
    body = node.subgraphs()["body"]
    limit, condition, *state = part.operands(node.key)
    iteration, keep = (Value(key) for key in body.inputs[:2])
    results = [value for _, value in body.outputs[1 + len(state) :]]
    known = [body.type_of(value) for value in results]
    counts = limit is not None or body.is_read(iteration)
    rows = [t for t in known if t is not None and t.shape is not None]
    sizes = _sizes(part, [v for v in (*state, *part.captured(node.key)) if v is not None])
    if (not counts and not results) or not all(_is_known(t, sizes) for t in rows) or len(rows) < len(known):
        return False
    b, inner = (Builder(g, call=node.call, location=node.location) for g in (part, body))
    number = TensorType("int64", ())
    at = body.add_input("at", number)
    # a state of one size, as graph mode needs it; one that may end early grows
    fills = limit is not None and _is_always(part, condition) and _is_whole(body, keep)
    before = [
        body.add_input(f"before{n}", _collected(t, whole if fills else None))
        for n, (t, whole) in enumerate(zip(rows, node.types[len(state) :], strict=True))
    ]
    own = body.inputs[2 : 2 + len(state)]
    body.inputs[2:] = [at.node, *own, *(value.node for value in before)]
    body.replace_uses(iteration, at)
    body.replace_uses(keep, inner.constant(True))
    reached = inner.op("Add", at, inner.constant(1))
    more = body.outputs[0][1]
    captures = part.captured(node.key)
    if limit is not None:
        limit = limit if b.type_of(limit).rank == 0 else b.op("Reshape", limit, b.constant([]))
        captures = [*captures, limit]
        goes_on = inner.op("Less", reached, body.add_capture(number))
        more = goes_on if _is_true(body, more) else inner.op("And", more, goes_on)
        begins = b.op("Greater", limit, b.constant(0))
        condition = begins if _is_always(part, condition) else b.op("And", condition, begins)
    given = [value for _, value in body.outputs[1 : 1 + len(state)]]
    first = inner.constant([0])
    made = [inner.op("Unsqueeze", value, first) for _, value in body.outputs[1 + len(state) :]]
    if fills and rows:
        place = inner.op("Reshape", at, inner.constant([1, 1]))
        joined = [inner.op("ScatterND", old, place, row) for old, row in zip(before, made, strict=True)]
    else:
        joined = [inner.op("Concat", old, row, axis=0) for old, row in zip(before, made, strict=True)]
    names = [
        "more",
        "at",
        *(f"state{n}" for n in range(len(given))),
        *(f"joined{n}" for n in range(len(joined))),
    ]
    body.outputs[:] = list(zip(names, [more, reached, *given, *joined], strict=True))
    filled = limit if fills and limit is not None else b.constant(0)
    empty = [_zeros(b, t, filled, sizes) for t in rows]
    found = b.ops(
        "Loop",
        None,
        b.constant(True) if condition is None else condition,
        b.constant(0),
        *state,
        *empty,
        outputs=1 + len(node.types),
        types=[number, *node.types[: len(state)], *(body.type_of(value) for value in before)],
        captures=captures,
        body=body,
    )
    for index, value in enumerate(found[1:]):
        part.replace_uses(Value(node.key, index), value)
    part.remove(node.key)
    return True


def _sizes(part: Graph, values: Sequence[Value]) -> dict[str, tuple[Value, int]]:
    """Return symbol -> a value and its axis that has this size."""
    found: dict[str, tuple[Value, int]] = {}
    for value in values:
        known = part.type_of(value)
        for axis, dim in enumerate(() if known is None else known.shape or ()):
            if isinstance(dim, str):
                found.setdefault(dim, (value, axis))
    return found


def _is_known(row: TensorType, sizes: Mapping[str, object]) -> bool:
    """Whether each size of a result is a number, or that of a value around the Loop."""
    return all(isinstance(dim, int) or dim in sizes for dim in row.shape or ())


def _collected(row: TensorType, whole: TensorType | None) -> TensorType:
    """Return the type of all results of a Loop; those of each turn so far have an open number of rows."""
    known = None if whole is None or whole.shape is None else whole.shape[0]
    return row.with_shape((known, *(row.shape or ())))


def _zeros(b: Builder, row: TensorType, count: Value, sizes: Mapping[str, tuple[Value, int]]) -> Value:
    """Return zeros for as many rows as a count says."""
    dtype, rows = numpy_dtype(row.dtype), b.graph.constant_value(count)
    if rows is not None and row.is_static:
        shape = (int(rows), *row.static_shape())
        if math.prod(shape) <= _MOST_STORED:
            return b.constant(np.zeros(shape, dtype))
    first = b.constant([0])
    parts = [b.op("Unsqueeze", count, first)]
    for dim in row.shape or ():
        if isinstance(dim, str):
            value, axis = sizes[dim]
            parts.append(b.op("Gather", b.op("Shape", value), b.constant([axis]), axis=0))
        else:
            parts.append(b.constant([dim]))
    shape = b.op("Concat", *parts, axis=0) if len(parts) > 1 else parts[0]
    return b.op("Expand", b.constant(np.zeros((), dtype)), shape)


def _is_always(part: Graph, condition: Value | None) -> bool:
    return condition is None or _is_true(part, condition)


def _is_whole(body: Graph, keep: Value) -> bool:
    """Whether a Loop runs all turns: what it returns as its condition is true, or what it was given."""
    value = body.outputs[0][1]
    return value == keep or _is_true(body, value)


def _is_true(body: Graph, value: Value) -> bool:
    found = body.constant_value(value)
    return found is not None and bool(found)
