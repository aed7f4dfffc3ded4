"""Fully connected layers and matrix products."""

from __future__ import annotations

from math import prod

from ....ir import Value
from ....ir.dims import product
from ...formulas import swap_last_axes
from ...lowering_table import LoweringTable
from ..call import Call

TABLE = LoweringTable[Call]("MXNet")


@TABLE.op("FullyConnected")
def fully_connected(call: Call) -> Value:
    """All axes but the first count as one, unless `flatten` is False: then the last alone."""
    x, *weights = call.operands()
    call.ignore("num_hidden", "no_bias", "cublas_off")
    if call.flag("flatten", default=True) and call.rank(x) != 2:
        x = call.op("Flatten", x, axis=1)
    return call.op("regraft.Linear", x, *weights)


@TABLE.op("batch_dot")
def batch_dot(call: Call) -> Value:
    """Return matrix products of stacks of matrices."""
    x, y = call.operands()
    call.ignore("forward_stype")
    if call.flag("transpose_a"):
        x = swap_last_axes(call, x)
    if call.flag("transpose_b"):
        y = swap_last_axes(call, y)
    return call.op("MatMul", x, y)


@TABLE.op("dot")
def dot(call: Call) -> Value:
    """Return the last axis of the one with the first of the other; transposing rotates instead."""
    x, y = call.operands()
    call.ignore("forward_stype")
    if call.flag("transpose_a"):
        x = call.op("Transpose", x, perm=[*range(1, call.rank(x)), 0])
    if call.flag("transpose_b"):
        y = call.op("Transpose", y, perm=[call.rank(y) - 1, *range(call.rank(y) - 1)])
    left, right = call.shape(x), call.shape(y)
    if len(right) > 2:
        (rows,) = call.static_shape(y, [0])
        rest = call.static_shape(y, range(1, len(right)))
        y = call.reshape(y, [rows, prod(rest)])
    product = call.op("MatMul", x, y)
    target = [*left[:-1], *right[1:]]
    return call.reshape(product, target or [1])


@TABLE.op("khatri_rao")
def khatri_rao(call: Call) -> Value:
    """Column by column, the products of all pairs of elements."""
    found, *others = call.operands()
    for other in others:
        rows, columns = call.shape(found)
        more, _ = call.shape(other)
        pairs = call.op(
            "Mul", call.reshape(found, [rows, 1, columns]), call.reshape(other, [1, more, columns])
        )
        found = call.reshape(pairs, [product([rows, more]), columns])
    return found
