"""Lowerings of matrix products."""

from __future__ import annotations

from ....ir import Value
from ...lowering_table import LoweringTable
from ..call import Call

TABLE = LoweringTable[Call]("torch")
TABLE.direct({"aten.matmul.default": "MatMul", "aten.mm.default": "MatMul", "aten.bmm.default": "MatMul"})
TABLE.direct({"aten.mv.default": "MatMul", "aten.dot.default": "MatMul"})


@TABLE.op("aten.linear.default")
def linear(call: Call) -> Value:
    """The composite, for a weight of rank 2; a vector of weights is a product with it."""
    x, weight, bias = call.value("input"), call.value("weight"), call.optional("bias")
    if call.rank("weight") == 2 and call.rank("input") >= 2:
        return call.op("regraft.Linear", x, weight, bias)
    if call.rank("weight") == 2:
        weight = call.op("Transpose", weight, perm=[1, 0])
    y = call.op("MatMul", x, weight)
    return y if bias is None else call.op("Add", y, bias)


def _scaled(call: Call, value: Value, name: str) -> Value:
    factor = call.arg(name)
    return value if factor == 1 else call.op("Mul", value, call.scalar_like(factor, value))


@TABLE.op("aten.addmm.default", "aten.addmv.default", "aten.baddbmm.default", "aten.addbmm.default")
def addmm(call: Call) -> Value:
    """``beta * self + alpha * a @ b``; of `addbmm`, the sum of the products of a batch."""
    names = [n for n in ("mat1", "mat", "batch1") if n in call]
    others = [n for n in ("mat2", "vec", "batch2") if n in call]
    product = call.op("MatMul", call.value(names[0]), call.value(others[0]))
    if "addbmm" in call.operator.replace("baddbmm", ""):
        product = call.op("ReduceSum", product, call.constant([0]), keepdims=0)
    return call.op("Add", _scaled(call, product, "alpha"), _scaled(call, call.value("self"), "beta"))


@TABLE.op("aten.einsum.default")
def einsum(call: Call) -> Value:
    """The same equation language, blanks removed."""
    call.require("path", None)
    equation = call.text("equation").replace(" ", "")
    return call.op("Einsum", *call.values("tensors"), equation=equation)


@TABLE.op("aten.bilinear.default")
def bilinear(call: Call) -> Value:
    """``x1 @ W[k] @ x2`` for every output k."""
    left, right, weight = call.value("input1"), call.value("input2"), call.value("weight")
    y = call.op("Einsum", left, weight, right, equation="...i,kij,...j->...k")
    bias = call.optional("bias")
    return y if bias is None else call.op("Add", y, bias)


@TABLE.op("transformers.grouped_mm_fallback.default")
def grouped_matmul(call: Call) -> Value:
    """Rows sorted by group, each times its group's matrix: all products, of which each row keeps its own.

    Row r is of group g where offs[g - 1] <= r < offs[g]; rows past the last offset are zeros.
    """
    x, weight, ends = call.value("input"), call.value("weight"), call.cast(call.value("offs"), "int64")
    groups = call.shape("weight")[0]
    if not isinstance(groups, int):
        raise call.unsupported(f"expected a static number of groups, got `{groups}`")
    rows = call.op("Range", *(call.size_value(n) for n in (0, call.shape("input")[0], 1)))
    starts = call.op(
        "Concat", call.constant([0]), call.op("Slice", ends, call.constant([0]), call.constant([-1])), axis=0
    )
    first, last = (call.op("Unsqueeze", bound, call.constant([1])) for bound in (starts, ends))
    own = call.op("And", call.op("GreaterOrEqual", rows, first), call.op("Less", rows, last))
    product = call.op("MatMul", call.op("Unsqueeze", x, call.constant([0])), weight)
    kept = call.op(
        "Where", call.op("Unsqueeze", own, call.constant([2])), product, call.constant(0, call.dtype)
    )
    return call.op("ReduceSum", kept, call.constant([0]), keepdims=0)
