"""Fully connected layers and matrix products."""

from __future__ import annotations

from ....ir import Value
from ..call import Use, new_table

TABLE = new_table()


@TABLE.op("FullyConnected")
def fully_connected(use: Use) -> Value:
    """All axes but the first count as one, unless `flatten` is False: then the last alone."""
    x, *weights = use.values()
    use.attrs.ignore("num_hidden", "no_bias", "cublas_off")
    if use.attrs.flag("flatten", default=True) and use.rank(x) != 2:
        x = use.b.op("Flatten", x, axis=1)
    return use.b.op("regraft.Linear", x, *weights)


@TABLE.op("batch_dot", "_linalg_gemm2")
def batch_dot(use: Use) -> Value:
    """Matrix products of stacks of matrices."""
    b, (x, y) = use.b, use.values()
    scale = use.attrs.float("alpha", 1.0)
    use.attrs.ignore("forward_stype", "axis")
    if use.attrs.flag("transpose_a"):
        x = _transposed(use, x)
    if use.attrs.flag("transpose_b"):
        y = _transposed(use, y)
    product = b.op("MatMul", x, y)
    return product if scale == 1.0 else b.op("Mul", product, b.scalar_like(scale, product))


def _transposed(use: Use, x: Value) -> Value:
    rank = use.rank(x)
    return use.b.op("Transpose", x, perm=[*range(rank - 2), rank - 1, rank - 2])


@TABLE.op("dot")
def dot(use: Use) -> Value:
    """The last axis of the one with the first of the other; transposing rotates instead."""
    b, (x, y) = use.b, use.values()
    use.attrs.ignore("forward_stype")
    if use.attrs.flag("transpose_a"):
        x = b.op("Transpose", x, perm=[*range(1, use.rank(x)), 0])
    if use.attrs.flag("transpose_b"):
        y = b.op("Transpose", y, perm=[use.rank(y) - 1, *range(use.rank(y) - 1)])
    left, right = use.shape(x), use.shape(y)
    if len(right) > 2:
        (rows,) = use.static(y, [0])
        rest = use.static(y, range(1, len(right)))
        y = use.reshape(y, [rows, _size(rest)])
    product = b.op("MatMul", x, y)
    target = [*left[:-1], *right[1:]]
    return use.reshape(product, target or [1])


def _size(dims: list[int]) -> int:
    size = 1
    for dim in dims:
        size *= dim
    return size
