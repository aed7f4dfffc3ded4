"""Dense layers and matrix products."""

from __future__ import annotations

from ...source.emitters.products import gemm_operand, is_plain_gemm, scale_and_add
from ...source.emitting import (
    EmitterTable,
    Expression,
    NnLayer,
    Refused,
    State,
    View,
)
from ...source.expressions import MULTIPLY, call, infix
from .initializers import construct, dtype_argument, laws_of_layer, without_bias

TABLE = EmitterTable()


def _linear(view: View) -> NnLayer:
    weight = view.parameter(1)
    if len(weight.data.shape) != 2:
        raise Refused
    outputs, inputs = weight.data.shape
    states = [State(1, "weight")]
    bias = view.parameter(2) if view.has(2) else None
    if bias is not None:
        if bias.data.shape != (outputs,):
            raise Refused
        states.append(State(2, "bias"))
    constructor = construct(
        "Linear",
        in_features=inputs,
        out_features=outputs,
        bias=without_bias(bias is not None),
        laws=laws_of_layer(view, "Linear", {"weight": weight, "bias": bias}, ("in_features", inputs)),
        dtype=dtype_argument(weight),
    )
    return NnLayer(constructor, tuple(states))


@TABLE.layer("regraft.Linear")
def linear_layer(view: View) -> NnLayer:
    """Emit nn.Linear."""
    return _linear(view)


@TABLE.call("regraft.Linear")
def linear(view: View) -> Expression:
    """Emit F.linear, with the weight as an operand."""
    return call("F.linear", *(view.tensor(slot) for slot in range(2 + view.has(2))))


@TABLE.layer("Gemm")
def gemm_layer(view: View) -> NnLayer:
    """Emit nn.Linear, if the weight is transposed."""
    if not is_plain_gemm(view) or not view.operator.int("transB"):
        raise Refused
    return _linear(view)


@TABLE.call("Gemm")
def gemm(view: View) -> Expression:
    """Emit ``a @ b * alpha + c * beta``."""
    a, b = (gemm_operand(view, slot, view.tensor(slot, MULTIPLY + slot)) for slot in (0, 1))
    return scale_and_add(view, infix(a, "@", b, MULTIPLY))


@TABLE.call("MatMul")
def matmul(view: View) -> Expression:
    """Emit ``a @ b``."""
    return infix(view.tensor(0, MULTIPLY), "@", view.tensor(1, MULTIPLY + 1), MULTIPLY)


@TABLE.call("Einsum")
def einsum(view: View) -> Expression:
    """Emit torch.einsum."""
    operands = (view.tensor(slot) for slot in range(len(view.operands)))
    return call("torch.einsum", view.operator.str("equation").replace(" ", ""), *operands)
