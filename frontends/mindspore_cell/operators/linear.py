"""Matrix products."""

from __future__ import annotations

from ....ir import Value
from ...formulas import swap_last_axes
from ...lowering_table import LoweringTable
from ..call import Call

TABLE = LoweringTable[Call]("MindSpore")


@TABLE.op("MatMul", "BatchMatMul")
def matmul(call: Call) -> Value:
    """Lower a product to Linear if its right side is a transposed parameter, else to ONNX's MatMul."""
    x, y = call.value(0), call.value(1)
    first, second = call.flag(2, False), call.flag(3, False)
    call.ignore("transpose_a", "transpose_b", "transpose_x1", "transpose_x2")
    if second and not first and call.is_parameter(y) and call.rank(y) == 2:
        return call.op("regraft.Linear", x, y)
    return call.op(
        "MatMul", swap_last_axes(call, x) if first else x, swap_last_axes(call, y) if second else y
    )


@TABLE.op("MatMulExt", "BatchMatMulExt")
def matmul_ext(call: Call) -> Value:
    """Return NumPy's matmul."""
    return call.op("MatMul", call.value(0), call.value(1))


@TABLE.op("Dense")
def dense(call: Call) -> Value:
    """X @ w.T + b."""
    bias = call.optional(2)
    return call.op("regraft.Linear", call.value(0), call.value(1), bias)
