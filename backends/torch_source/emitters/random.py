"""Random numbers of the source's law: each run has its own."""

from __future__ import annotations

from ....ir.types import dtype_of_onnx
from ...source.emitting import EmitterTable, Expression, Literal, Refused, View
from ...source.expressions import ADD, MULTIPLY, call, infix, method
from .initializers import made, torch_dtype

TABLE = EmitterTable()


def _of_law(view: View, drawn: Expression, *, normal: bool) -> Expression:
    """Return numbers of a standard law, wider and moved."""
    operator, found = view.operator, drawn
    low = 0.0 if normal else operator.float("low")
    factor = operator.float("scale") if normal else operator.float("high") - low
    offset = operator.float("mean") if normal else low
    if factor != 1:
        found = infix(found, "*", Literal(factor, "scale"), MULTIPLY)
    return infix(found, "+", Literal(offset, "offset"), ADD) if offset else found


@TABLE.call("RandomUniform", "RandomNormal")
def drawn(view: View) -> Expression:
    """Emit torch.rand or torch.randn."""
    operator = view.operator
    normal = operator.op_type == "RandomNormal"
    dtype = dtype_of_onnx(operator.int("dtype"))
    found = made("torch.randn" if normal else "torch.rand", operator.ints("shape"), dtype)
    return _of_law(view, found, normal=normal)


@TABLE.call("RandomUniformLike", "RandomNormalLike")
def drawn_like(view: View) -> Expression:
    """Emit torch.rand_like or torch.randn_like."""
    normal = view.operator.op_type == "RandomNormalLike"
    to = view.output_type()
    if to is None:
        raise Refused
    dtype = None if to.dtype == view.type(0).dtype else torch_dtype(to.dtype)
    found = call("torch.randn_like" if normal else "torch.rand_like", view.tensor(0), dtype=dtype)
    return _of_law(view, found, normal=normal)


@TABLE.call("Multinomial")
def multinomial(view: View) -> Expression:
    """Emit torch.multinomial, which takes probabilities, of the logarithms that ONNX takes."""
    dtype, size = dtype_of_onnx(view.operator.int("dtype")), view.operator.int("sample_size")
    found = call("torch.multinomial", call("torch.exp", view.use(0)), size, replacement=True)
    return found if dtype == "int64" else method(found, "to", torch_dtype(dtype))
