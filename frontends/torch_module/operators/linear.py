"""Lowerings of matrix products."""

from __future__ import annotations

from string import ascii_letters

from ....ir import Value
from ...lowering_table import LoweringTable
from ..call import Call

TABLE = LoweringTable[Call]("torch")
TABLE.direct({"aten.matmul.default": "MatMul", "aten.mm.default": "MatMul", "aten.bmm.default": "MatMul"})
TABLE.direct({"aten.mv.default": "MatMul", "aten.dot.default": "MatMul"})


@TABLE.op("aten.linear.default")
def linear(call: Call) -> Value:
    """Return the composite, for a weight of rank 2; a vector of weights is a product with it."""
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
    """Return ``beta * self + alpha * a @ b``; of `addbmm`, the sum of the products of a batch."""
    names = [n for n in ("mat1", "mat", "batch1") if n in call]
    others = [n for n in ("mat2", "vec", "batch2") if n in call]
    product = call.op("MatMul", call.value(names[0]), call.value(others[0]))
    if "addbmm" in call.operator.replace("baddbmm", ""):
        product = call.op("ReduceSum", product, call.constant([0]), keepdims=0)
    return call.op("Add", _scaled(call, product, "alpha"), _scaled(call, call.value("self"), "beta"))


_SUMMED = ("float32", "float64", "int32", "int64")
"""Element types that runtimes have Einsum for; half precision is theirs too, as a product of matrices."""


@TABLE.op("aten.einsum.default")
def einsum(call: Call) -> Value:
    """Return the same equation, of operands of one element type, in which an ellipsis broadcasts nothing."""
    call.require("path", None)
    values, equation = call.values("tensors"), call.text("equation").replace(" ", "")
    if "..." in equation:
        values, equation = _spell_out(call, values, equation)
    exact = call.dtype if call.dtype in _SUMMED or "float" in call.dtype else "int64"
    product = call.op("Einsum", *(call.cast(v, exact) for v in values), equation=equation)
    return call.cast(product, call.dtype)


def _spell_out(call: Call, values: list[Value], equation: str) -> tuple[list[Value], str]:
    """Operands and equation with a letter for every axis of an ellipsis, where those do not fit as they are.

    ONNX wants one rank of all ellipses, and letters that broadcast nothing: an axis of size 1 is taken out.
    """
    inputs, arrow, output = equation.partition("->")
    parts = [term.partition("...") for term in inputs.split(",")]
    shapes = [
        call.shape(v)[len(head) : call.rank(v) - len(tail)] if dots else ()
        for v, (head, dots, tail) in zip(values, parts, strict=True)
    ]
    rank = max(map(len, shapes))
    free = [x for x in ascii_letters if x not in equation]
    letters = free[len(free) - rank :]
    sizes = [[shape[len(shape) - at] for shape in shapes if len(shape) >= at] for at in range(rank, 0, -1)]
    stretched = {x for x, found in zip(letters, sizes, strict=True) if 1 in found and set(found) != {1}}
    if not stretched and len({len(s) for s, (_, dots, _) in zip(shapes, parts, strict=True) if dots}) == 1:
        return values, equation
    terms: list[str] = []
    for at, (shape, (head, _, tail)) in enumerate(zip(shapes, parts, strict=True)):
        own = list(zip(letters[rank - len(shape) :], shape, strict=True))
        gone = [len(head) + i for i, (x, size) in enumerate(own) if x in stretched and size == 1]
        if gone:
            values[at] = call.op("Squeeze", values[at], call.constant(gone))
        kept = "".join(x for x, size in own if not (x in stretched and size == 1))
        terms.append(head + kept + tail)
    if not arrow:
        named = inputs.replace("...", "").replace(",", "")
        output = "..." + "".join(sorted(x for x in set(named) if named.count(x) == 1))
    return values, f"{','.join(terms)}->{output.replace('...', ''.join(letters))}"


@TABLE.op("aten.bilinear.default")
def bilinear(call: Call) -> Value:
    """Return ``x1 @ W[k] @ x2`` for every output k."""
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
