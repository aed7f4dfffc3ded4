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
    """Return a tensor as the diagonal of one of twice its axes, as a vector is that of a matrix."""
    x = call.value(0)
    sizes = call.static_shape()
    count = int(np.prod(sizes))
    flat = x if len(sizes) == 1 else call.op("Reshape", x, call.constant([count]))
    found = call.op(
        "Mul", call.op("Unsqueeze", flat, call.constant([0])), call.constant(np.eye(count), call.dtype)
    )
    return found if len(sizes) == 1 else call.op("Reshape", found, call.constant([*sizes, *sizes]))


@TABLE.op("Diagonal")
def diagonal(call: Call) -> Value:
    """Return diagonals of two axes, behind the others."""
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
    """Return each vector along an axis of its own: "xy" (1) exchanges the first two."""
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


@TABLE.op("TrilIndices", "TriuIndices")
def triangle_places(call: Call) -> Value:
    call.ignore("dtype")
    places = np.tril_indices if call.operator == "TrilIndices" else np.triu_indices
    found = places(call.int("row"), call.int("offset"), call.int("col"))
    return call.constant(np.stack(found), call.dtype)


@TABLE.op("BartlettWindow", "BlackmanWindow")
def window(call: Call) -> Value:
    """Its last place is not that of the next period's first, unless it is not periodic."""
    call.ignore("dtype", "max_length")
    count, periodic = call.int(0), call.flag("periodic")
    function = np.bartlett if call.operator == "BartlettWindow" else np.blackman
    found = function(count + 1)[:-1] if periodic and count > 1 else function(count)
    return call.constant(found, call.dtype)


@TABLE.op("LogSpace")
def logarithmic_space(call: Call) -> Value:
    call.ignore("dtype")
    count, base = call.int("steps"), call.int("base")
    return call.constant(np.logspace(call.float(0), call.float(1), count, base=base), call.dtype)


@TABLE.op("Trace")
def trace(call: Call) -> Value:
    rows, columns = call.static_shape()
    kept = call.op("Mul", call.value(0), call.constant(np.eye(rows, columns), call.dtype))
    return call.op("ReduceSum", kept, keepdims=0)


# -- matrices in the last two axes -----------------------------------------------------------------------


@TABLE.op("MatrixBandPart")
def band(call: Call) -> Value:
    """Return so many diagonals below and above the middle one; negative is all of them."""
    x, below, above = call.value(0), call.int(1), call.int(2)
    rows, columns = call.static_shape(x, [-2, -1])
    apart = np.arange(columns) - np.arange(rows)[:, None]
    kept = ((below < 0) | (-apart <= below)) & ((above < 0) | (apart <= above))
    return call.op("Where", call.constant(kept), x, call.scalar_like(0, x))


@TABLE.op("MatrixSetDiagV3")
def set_diagonals(call: Call) -> Value:
    """Return diagonals written over those of matrices."""
    call.ignore("max_length")
    x, diagonals = call.value(0), call.value(1)
    rows, columns = call.static_shape(x, [-2, -1])
    return _with_diagonals(call, x, diagonals, call.ints(2), rows, columns)


@TABLE.op("MatrixDiagV3")
def make_diagonals(call: Call) -> Value:
    """Return matrices of diagonals, and another number everywhere else."""
    call.ignore(2, 3)  # the sizes, which the result's type states
    sizes = [d for d in (call.type.shape or ())[-2:] if isinstance(d, int)]
    if len(sizes) != 2:
        raise call.depends_on_batch()
    rows, columns = sizes
    return _with_diagonals(call, call.operand(4, call.dtype), call.value(0), call.ints(1), rows, columns)


def _with_diagonals(
    call: Call, x: Value, diagonals: Value, which: list[int], rows: int, columns: int
) -> Value:
    """Return diagonals from the last of `which` down to the first, of which short ones are aligned."""
    low, high = which[0], which[-1]
    length = call.static_shape(diagonals, [-1])[0]
    above, below = call.text("align").split("_")
    table = np.full((rows, columns), -1)
    for number, k in enumerate(range(high, low - 1, -1)):
        own = min(rows + min(k, 0), columns - max(k, 0))
        start = length - own if (above if k >= 0 else below) == "RIGHT" else 0
        for step in range(own):
            table[max(-k, 0) + step, max(k, 0) + step] = number * length + start + step
    if len(which) > 1 and low != high:
        rank = call.rank(diagonals)
        lead = [Size.of(d) if isinstance(d, str) else d for d in call.shape(diagonals)[: rank - 2]]
        diagonals = call.reshape(diagonals, [*lead, (high - low + 1) * length])
    spread = call.op("Gather", diagonals, call.constant(np.maximum(table, 0)), axis=-1)
    return call.op("Where", call.constant(table >= 0), spread, x)


@TABLE.op("Tril", "Triu")
def triangle(call: Call) -> Value:
    diagonal = call.arg("diagonal") if "diagonal" in call else call.arg(1, 0)
    return call.op("Trilu", call.value(0), call.constant(diagonal), upper=int(call.operator == "Triu"))
