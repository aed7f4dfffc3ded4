"""Matrix products."""

from __future__ import annotations

from ....ir import Parameter, Value
from ...lowering_table import LoweringTable
from ..call import Lowering, Use

TABLE: LoweringTable[Lowering] = LoweringTable("MindSpore")


@TABLE.op("MatMul", "BatchMatMul")
def matmul(use: Use) -> Value:
    """With a transposed parameter on the right it is a Linear; else ONNX's MatMul."""
    x, y = use.tensor(0), use.tensor(1)
    first, second = bool(use.argument(2, False)), bool(use.argument(3, False))
    use.attributes.ignore("transpose_a", "transpose_b", "transpose_x1", "transpose_x2")
    if second and not first and isinstance(use.graph.producer(y), Parameter) and use.rank(y) == 2:
        return use.emit("regraft.Linear", x, y)
    return use.emit("MatMul", swapped(use, x) if first else x, swapped(use, y) if second else y)


@TABLE.op("MatMulExt", "BatchMatMulExt")
def matmul_ext(use: Use) -> Value:
    """NumPy's matmul."""
    return use.emit("MatMul", use.tensor(0), use.tensor(1))


@TABLE.op("Dense")
def dense(use: Use) -> Value:
    """X @ w.T + b."""
    bias = None if use.argument(2) is None else use.tensor(2)
    return use.emit("regraft.Linear", use.tensor(0), use.tensor(1), bias)


def swapped(use: Use, value: Value) -> Value:
    """The value with its last two axes exchanged."""
    rank = use.rank(value)
    return use.b.op("Transpose", value, perm=[*range(rank - 2), rank - 1, rank - 2])
