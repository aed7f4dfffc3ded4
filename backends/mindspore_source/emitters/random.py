"""Random numbers of the source's law, drawn by MindSpore: each run has its own."""

from __future__ import annotations

from ....ir.types import dtype_of_onnx
from ...source.emitting import EmitterTable, Expression, Literal, Refused, View
from ...source.expressions import ADD, MULTIPLY, call, infix, method
from .initializers import ms_dtype

TABLE = EmitterTable()


def _scaled(drawn: Expression, factor: float, offset: float) -> Expression:
    """Return numbers of a standard law, wider and moved."""
    found = drawn
    if factor != 1:
        found = infix(found, "*", Literal(factor, "scale"), MULTIPLY)
    if offset:
        found = infix(found, "+", Literal(offset, "offset"), ADD)
    return found


def _of_law(view: View, drawn: Expression, *, normal: bool) -> Expression:
    operator = view.operator
    if normal:
        return _scaled(drawn, operator.float("scale"), operator.float("mean"))
    low = operator.float("low")
    return _scaled(drawn, operator.float("high") - low, low)


@TABLE.call("RandomUniform", "RandomNormal")
def drawn(view: View) -> Expression:
    """Emit ops.rand or ops.randn."""
    operator = view.operator
    normal = operator.op_type == "RandomNormal"
    shape = operator.ints("shape")
    dtype = Expression((ms_dtype(dtype_of_onnx(operator.int("dtype"))),))
    return _of_law(view, call("ops.randn" if normal else "ops.rand", *shape, dtype=dtype), normal=normal)


@TABLE.call("RandomUniformLike", "RandomNormalLike")
def drawn_like(view: View) -> Expression:
    """Emit ops.rand_like or ops.randn_like."""
    normal = view.operator.op_type == "RandomNormalLike"
    return _of_law(view, call("ops.randn_like" if normal else "ops.rand_like", view.use(0)), normal=normal)


@TABLE.call("Multinomial")
def multinomial(view: View) -> Expression:
    """Emit ops.multinomial, which takes probabilities, of the logarithms that ONNX takes."""
    kind = dtype_of_onnx(view.operator.int("dtype"))
    if kind not in ("int32", "int64"):
        raise Refused
    drawn = call("ops.multinomial", call("ops.exp", view.use(0)), view.operator.int("sample_size"))
    return drawn if kind == "int32" else method(drawn, "astype", Expression(("ms.int64",)))
