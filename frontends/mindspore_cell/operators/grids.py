"""Diagonals, triangles, and vectors spread over grids."""

from __future__ import annotations

import numpy as np

from ....ir import Value
from ....ir.dims import Size
from ...lowering_table import LoweringTable
from ..call import Call

TABLE = LoweringTable[Call]("MindSpore")


@TABLE.op("Diag")
def diagonal_matrix(call: Call) -> Value:
    """A vector as the diagonal of a matrix."""
    x = call.value(0)
    if call.rank() != 1:
        raise call.unsupported(f"expected a vector, got {call.type_of()}")
    (size,) = call.static_shape()
    return call.op(
        "Mul", call.op("Unsqueeze", x, call.constant([0])), call.constant(np.eye(size), call.dtype)
    )


@TABLE.op("Diagonal")
def diagonal(call: Call) -> Value:
    """Diagonals of two axes, behind the others."""
    x, offset = call.value(0), call.int(1)
    rank = call.rank()
    a, b = call.axis(2), call.axis(3)
    others = [i for i in range(rank) if i not in (a, b)]
    rows, columns = call.static_shape(x, [a, b])
    moved = call.op("Transpose", x, perm=[a, b, *others])
    places = [(i, i + offset) for i in range(rows) if 0 <= i + offset < columns]
    if not places:
        raise call.unsupported(f"expected a diagonal inside of {rows} x {columns}, got {offset}")
    found = call.op("GatherND", moved, call.constant(np.array(places, np.int64)))
    return call.op("Transpose", found, perm=[*range(1, rank - 1), 0]) if others else found


@TABLE.op("Meshgrid")
def mesh(call: Call) -> tuple[Value, ...]:
    """Each vector along an axis of its own: "xy" (1) exchanges the first two."""
    vectors, exchanged = call.values(0), call.int(1) == 1
    axes = list(range(len(vectors)))
    if exchanged and len(axes) > 1:
        axes[:2] = [1, 0]
    dims = {axis: call.shape(v)[0] if call.rank(v) else 1 for axis, v in zip(axes, vectors, strict=True)}
    shape = call.shape_value([Size.of(d) if isinstance(d, str) else d for _, d in sorted(dims.items())])
    out = []
    for axis, vector in zip(axes, vectors, strict=True):
        codes = [1] * len(axes)
        codes[axis] = -1
        out.append(call.op("Expand", call.op("Reshape", vector, call.constant(codes)), shape))
    return tuple(out)


@TABLE.op("Eye")
def identity_matrix(call: Call) -> Value:
    return call.constant(np.eye(call.int(0), call.int(1), dtype=call.element_type(2)))


@TABLE.op("Tril", "Triu")
def triangle(call: Call) -> Value:
    diagonal = call.arg("diagonal") if "diagonal" in call else call.arg(1, 0)
    return call.op("Trilu", call.value(0), call.constant(diagonal), upper=int(call.operator == "Triu"))
