"""Dense layers and matrix products."""

from __future__ import annotations

from ...source.emitters.products import gemm_operand, is_plain_gemm, scale_and_add
from ...source.emitting import (
    Always,
    Argument,
    Call,
    EmitterTable,
    Expression,
    NnLayer,
    Refused,
    State,
    View,
)
from ...source.expressions import ADD, MULTIPLY, Helper, call, infix
from ..operators import is_batch_of_products
from .initializers import construct, drawn, dtype_argument
from .reduce import sum_of_none

TABLE = EmitterTable()


def _dense(view: View) -> NnLayer:
    weight = view.parameter(1)
    if len(weight.data.shape) != 2:
        raise Refused
    outputs, inputs = weight.data.shape
    states, bias = [State(1, "weight")], None
    if view.has(2):
        bias = view.parameter(2)
        if bias.data.shape != (outputs,):
            raise Refused
        states.append(State(2, "bias"))
    constructor = construct(
        "Dense",
        in_channels=inputs,
        out_channels=outputs,
        weight_drawn=drawn("Dense", "weight", weight, (inputs,)),
        bias_drawn=() if bias is None else drawn("Dense", "bias", bias, (inputs,)),
        bias=Always(bias is not None),
        dtype=dtype_argument(weight),
    )
    return NnLayer(constructor, tuple(states))


@TABLE.layer("regraft.Linear")
def linear_layer(view: View) -> NnLayer:
    """Emit nn.Dense."""
    return _dense(view)


@TABLE.call("regraft.Linear")
def linear(view: View) -> Expression:
    """Emit a function that computes as nn.Dense does, or ops.dense, with the weight as an operand."""
    if view.shape(1)[-1] == 0:
        return infix(
            _total(view, 0, -1), "+", view.use(2, MULTIPLY) if view.has(2) else _total(view, 1, 1), ADD
        )
    function = Helper("affine") if _is_affine(view) else "ops.dense"
    return call(function, *(view.tensor(slot) for slot in range(2 + view.has(2))))


def _is_affine(view: View) -> bool:
    """Whether rows of numbers meet a matrix, in a type whose kernel takes no rows too, as float64's does not.

    What was MindSpore's keeps its form.
    """
    return (
        view.graph.origin.framework != "mindspore"
        and view.type(0).dtype in ("float16", "float32")
        and view.rank() > 1
        and len(view.shape(1)) == 2
        and (not view.has(2) or view.shape(2) == view.shape(1)[:1])
    )


def _total(view: View, slot: int, axis: int) -> Expression:
    """Return sums over an empty axis, all 0: MindSpore leaves products over such an axis uninitialised."""
    return sum_of_none(view.atom(slot), axis, keep=axis < 0)


@TABLE.layer("Gemm")
def gemm_layer(view: View) -> NnLayer:
    """Emit nn.Dense, if the weight is transposed."""
    if not is_plain_gemm(view) or not view.operator.int("transB"):
        raise Refused
    return _dense(view)


@TABLE.call("Gemm")
def gemm(view: View) -> Expression:
    """Emit ``ops.matmul(a, b) * alpha + c * beta``."""
    a, b = (gemm_operand(view, slot, view.use(slot)) for slot in (0, 1))
    return scale_and_add(view, call("ops.matmul", a, b))


@TABLE.call("MatMul")
def matmul(view: View) -> Expression:
    """Emit ops.bmm for one product per matrix, ops.matmul where a matrix is used for several."""
    a, b = view.shape(0), view.shape(1)
    if a[-1] == 0 and len(a) > 1 and len(b) > 1:
        return infix(_total(view, 0, -1), "+", _total(view, 1, -2), ADD)
    function = "ops.bmm" if is_batch_of_products(a, b) else "ops.matmul"
    return call(function, view.tensor(0), view.tensor(1))


@TABLE.call("regraft.mindspore.MatMul")
def transposing_matmul(view: View) -> Expression:
    """Emit the primitive, because ops.bmm takes operands as they are; named as in BLAS, nt for a @ b.T."""
    turned = {name: view.operator.int(f"trans{name.upper()}") for name in "ab"}
    flags = tuple(Argument(f"transpose_{name}", "True") for name, turns in turned.items() if turns)
    letters = "".join("t" if turns else "n" for turns in turned.values())
    product = view.scope.function(f"matmul_{letters}", Call("ops.BatchMatMul", flags))
    return call(product, view.tensor(0), view.tensor(1))
