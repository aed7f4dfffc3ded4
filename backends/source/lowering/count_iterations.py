"""count-iterations: a Loop that counts its iterations or collects results carries both as state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ....ir import Builder, Graph, Operator, TensorType, Value, numpy_dtype, walk_operators
from ....passes.base import Change, Pass


@dataclass(frozen=True)
class CountIterations(Pass):
    """Make a Loop carry its iteration number and the results of its iterations.

    What it does:
        Replaces a Loop with a number of iterations, or with one result per iteration, by one that only
        carries state: the iteration number is a state, which the condition compares with the limit, and
        each result is joined to the earlier ones.

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
    if (not counts and not results) or not all(t is not None and t.is_static for t in known):
        return False
    rows = [t for t in known if t is not None]
    b, inner = (Builder(g, call=node.call, location=node.location) for g in (part, body))
    number = TensorType("int64", ())
    at = body.add_input("at", number)
    before = [
        body.add_input(f"before{n}", t.with_shape((None, *t.static_shape()))) for n, t in enumerate(rows)
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
        condition = begins if condition is None else b.op("And", condition, begins)
    given = [value for _, value in body.outputs[1 : 1 + len(state)]]
    first = inner.constant([0])
    joined = [
        inner.op("Concat", old, inner.op("Unsqueeze", value, first), axis=0)
        for old, value in zip(
            before, [body.outputs[1 + len(state) + n][1] for n in range(len(rows))], strict=True
        )
    ]
    names = [
        "more",
        "at",
        *(f"state{n}" for n in range(len(given))),
        *(f"joined{n}" for n in range(len(joined))),
    ]
    body.outputs[:] = list(zip(names, [more, reached, *given, *joined], strict=True))
    empty = [b.constant(np.zeros((0, *t.static_shape()), numpy_dtype(t.dtype))) for t in rows]
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


def _is_true(body: Graph, value: Value) -> bool:
    found = body.constant_value(value)
    return found is not None and bool(found)
