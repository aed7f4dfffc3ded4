"""Dense layers and matrix products."""

from __future__ import annotations

from ...source.emitting import (
    EmitterTable,
    Expression,
    Literal,
    NnLayer,
    Refused,
    State,
    View,
)
from ...source.expressions import ADD, MULTIPLY, Attribute, Part, call, infix
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


def _is_plain(view: View) -> bool:
    operator = view.operator
    return operator.float("alpha") == 1.0 and operator.float("beta") == 1.0 and not operator.int("transA")


@TABLE.layer("Gemm")
def gemm_layer(view: View) -> NnLayer:
    """Emit nn.Linear, if the weight is transposed."""
    if not _is_plain(view) or not view.operator.int("transB"):
        raise Refused
    return _linear(view)


@TABLE.call("Gemm")
def gemm(view: View) -> Expression:
    """Emit ``alpha * a @ b + beta * c``."""
    operator = view.operator

    def operand(slot: int, transposed: int) -> Part:
        return Attribute(view.atom(slot), "T") if transposed else view.tensor(slot, MULTIPLY + slot)

    found = infix(operand(0, operator.int("transA")), "@", operand(1, operator.int("transB")), MULTIPLY)
    alpha, beta = operator.float("alpha"), operator.float("beta")
    if alpha != 1.0:
        found = infix(found, "*", Literal(alpha, "alpha"), MULTIPLY)
    if not view.has(2):
        return found
    bias: Part = view.use(2, MULTIPLY)
    if beta != 1.0:
        bias = infix(view.use(2, MULTIPLY), "*", Literal(beta, "beta"), MULTIPLY)
    return infix(found, "+", bias, ADD)


@TABLE.call("MatMul")
def matmul(view: View) -> Expression:
    """Emit ``a @ b``."""
    return infix(view.tensor(0, MULTIPLY), "@", view.tensor(1, MULTIPLY + 1), MULTIPLY)


@TABLE.call("Einsum")
def einsum(view: View) -> Expression:
    """Emit torch.einsum."""
    operands = (view.tensor(slot) for slot in range(len(view.operands)))
    return call("torch.einsum", view.operator.str("equation").replace(" ", ""), *operands)
