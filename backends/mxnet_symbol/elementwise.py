"""Emitters of activations, softmaxes, arithmetic and loss heads."""

from __future__ import annotations

import numpy as np

from .symbol import Emission, EmitterTable, Reference

TABLE = EmitterTable()
TABLE.direct(
    {
        "Identity": "_copy",
        "Abs": "abs",
        "Neg": "negative",
        "Exp": "exp",
        "Log": "log",
        "Sqrt": "sqrt",
        "Reciprocal": "reciprocal",
        "Sign": "sign",
        "Floor": "floor",
        "Ceil": "ceil",
        "Erf": "erf",
        "Sin": "sin",
        "Cos": "cos",
        "Tan": "tan",
        "Asin": "arcsin",
        "Acos": "arccos",
        "Atan": "arctan",
        "Sinh": "sinh",
        "Cosh": "cosh",
        "Asinh": "arcsinh",
        "Acosh": "arccosh",
        "Atanh": "arctanh",
        "Not": "logical_not",
        "regraft.StopGradient": "BlockGrad",
    }
)

_ACTIVATIONS = {
    "Relu": "relu",
    "Sigmoid": "sigmoid",
    "Tanh": "tanh",
    "Softplus": "softrelu",
    "Softsign": "softsign",
}


@TABLE.op(*_ACTIVATIONS)
def activation(e: Emission) -> Reference:
    return e.node("Activation", e.inputs(), act_type=_ACTIVATIONS[e.operator.op_type])


@TABLE.op("LeakyRelu", "Elu")
def leaky(e: Emission) -> Reference:
    kind, default = ("leaky", 0.01) if e.operator.op_type == "LeakyRelu" else ("elu", 1.0)
    return e.node("LeakyReLU", e.inputs(), act_type=kind, slope=e.operator.float("alpha", default))


@TABLE.op("Selu")
def selu(e: Emission) -> Reference:
    return e.node("LeakyReLU", e.inputs(), act_type="selu")


@TABLE.op("Gelu")
def gelu(e: Emission) -> Reference:
    if e.operator.str("approximate", "none") != "none":
        raise e.refused("expected the exact Gelu, the only one that MXNet has")
    return e.node("LeakyReLU", e.inputs(), act_type="gelu")


@TABLE.op("PRelu")
def prelu(e: Emission) -> Reference:
    gamma = e.held("gamma")
    slope = e.input(1)
    before = e.producer(1)
    if before is not None and before.op_type == "Reshape":  # one slope a channel, made to broadcast
        source = e.graph.operands(before.key)[0]
        assert source is not None
        slope = e.builder.reference(source, e.name)
    elif gamma is None and len(e.shape(1)) > 1:
        slope = e.node("Reshape", [slope], shape=[-1])
    return e.node("LeakyReLU", [e.input(), slope], act_type="prelu")


@TABLE.op("HardSigmoid")
def hard_sigmoid(e: Emission) -> Reference:
    o = e.operator
    return e.node("hard_sigmoid", e.inputs(), alpha=o.float("alpha", 0.2), beta=o.float("beta", 0.5))


@TABLE.op("Softmax", "LogSoftmax")
def softmax(e: Emission) -> Reference:
    op = "softmax" if e.operator.op_type == "Softmax" else "log_softmax"
    return e.node(op, e.inputs(), axis=e.operator.int("axis", -1))


_BINARY = {
    "Add": ("elemwise_add", "broadcast_add", "_plus_scalar", "_plus_scalar"),
    "Sub": ("elemwise_sub", "broadcast_sub", "_minus_scalar", "_rminus_scalar"),
    "Mul": ("elemwise_mul", "broadcast_mul", "_mul_scalar", "_mul_scalar"),
    "Div": ("elemwise_div", "broadcast_div", "_div_scalar", "_rdiv_scalar"),
    "Pow": ("_power", "broadcast_power", "_power_scalar", "_rpower_scalar"),
    "Max": ("_maximum", "broadcast_maximum", "_maximum_scalar", "_maximum_scalar"),
    "Min": ("_minimum", "broadcast_minimum", "_minimum_scalar", "_minimum_scalar"),
    "Equal": ("_equal", "broadcast_equal", "_equal_scalar", "_equal_scalar"),
    "Greater": ("_greater", "broadcast_greater", "_greater_scalar", "_lesser_scalar"),
    "GreaterOrEqual": (
        "_greater_equal", "broadcast_greater_equal", "_greater_equal_scalar", "_lesser_equal_scalar",
    ),
    "Less": ("_lesser", "broadcast_lesser", "_lesser_scalar", "_greater_scalar"),
    "LessOrEqual": (
        "_lesser_equal", "broadcast_lesser_equal", "_lesser_equal_scalar", "_greater_equal_scalar",
    ),
    "And": ("_logical_and", "broadcast_logical_and", "_logical_and_scalar", "_logical_and_scalar"),
    "Or": ("_logical_or", "broadcast_logical_or", "_logical_or_scalar", "_logical_or_scalar"),
    "Xor": ("_logical_xor", "broadcast_logical_xor", "_logical_xor_scalar", "_logical_xor_scalar"),
}  # fmt: skip
"""IR operator -> MXNet's for equal shapes, with broadcasting, with a number last, with a number first."""


def _number(e: Emission, slot: int) -> float | None:
    """The number that an operand is, when that does not change the rank of the result."""
    array = e.constant(slot)
    other = e.shape(1 - slot)
    return (
        float(array.ravel()[0])
        if array is not None and array.size == 1 and array.ndim <= len(other)
        else None
    )


@TABLE.op(*_BINARY)
def binary(e: Emission) -> Reference:
    equal, broadcast, last, first = _BINARY[e.operator.op_type]
    if len(e.operands) == 1:
        return e.input()
    if len(e.operands) > 2:
        raise e.refused("expected two operands")
    for slot, op in ((1, last), (0, first)):
        number = _number(e, slot)
        if number is not None:
            return e.node(op, [e.input(1 - slot)], scalar=number)
    same = e.shape(0) == e.shape(1) and None not in e.shape(0)
    if e.operator.op_type == "Mul" and e.value(0) == e.value(1):
        return e.node("square", [e.input()])
    return e.node(equal if same else broadcast, e.inputs())


@TABLE.op("Where")
def where(e: Emission) -> Reference:
    """MXNet's where does not broadcast: a number becomes an array like the other operand."""
    on, off = (None if a is None or a.size != 1 else float(a.ravel()[0]) for a in (e.constant(1), e.constant(2)))
    if on is not None and off is not None:
        result = e.operator.types[0]
        assert result is not None
        chosen = e.node("Cast", [e.input()], dtype=result.dtype)
        return e.node("_plus_scalar", [e.node("_mul_scalar", [chosen], scalar=on - off)], scalar=off)
    if on is not None:
        branches = [e.node("_plus_scalar", [e.node("zeros_like", [e.input(2)])], scalar=on), e.input(2)]
    elif off is not None:
        branches = [e.input(1), e.node("_plus_scalar", [e.node("zeros_like", [e.input(1)])], scalar=off)]
    else:
        branches = [e.input(1), e.input(2)]
    shapes = {e.shape(i) for i, number in ((1, on), (2, off)) if number is None}
    condition = e.input()
    if len(shapes) > 1:
        raise e.refused("expected a Where without broadcasting")
    if e.shape(0) not in shapes:
        condition = e.node("broadcast_like", [condition, branches[0]])
    return e.node("where", [condition, *branches])


@TABLE.op("Sum")
def add_n(e: Emission) -> Reference:
    return e.node("add_n", e.inputs(), num_args=len(e.operands))


@TABLE.op("Clip")
def clip(e: Emission) -> Reference:
    info = np.finfo(np.float32)
    bounds = [e.constant(i) if e.has(i) else np.array(d) for i, d in ((1, info.min), (2, info.max))]
    if bounds[0] is None or bounds[1] is None:
        raise e.refused("expected constant bounds")
    return e.node("clip", [e.input()], a_min=float(bounds[0]), a_max=float(bounds[1]))


@TABLE.op("Cast")
def cast(e: Emission) -> Reference:
    target = e.operator.types[0]
    assert target is not None
    if target.dtype == "bool":  # MXNet's conditions are numbers
        return e.node("_not_equal_scalar", e.inputs(), scalar=0.0)
    return e.node("Cast", e.inputs(), dtype=target.dtype)


def _label(e: Emission) -> Reference:
    return e.input(1) if e.has(1) else e.builder.label(e.operator.str("label") or f"{e.name}_label")


@TABLE.op("regraft.SoftmaxOutput")
def softmax_output(e: Emission) -> Reference:
    o, axis = e.operator, e.operator.int("axis", -1)
    ignore = o.attributes.get("ignore_label")
    alone = axis == -1 and len(e.shape()) > 2
    return e.node(
        "SoftmaxOutput", [e.input(), _label(e)], multi_output=True if axis == 1 else None,
        preserve_shape=True if alone else None, grad_scale=o.float("grad_scale", 1.0),
        use_ignore=True if ignore is not None else None, ignore_label=ignore,
        normalization=o.str("normalization", "null"), smooth_alpha=o.float("smooth_alpha", 0.0),
    )  # fmt: skip


@TABLE.op("regraft.LinearRegressionOutput", "regraft.MAERegressionOutput", "regraft.LogisticRegressionOutput")
def regression_output(e: Emission) -> Reference:
    return e.node(e.operator.op_type, [e.input(), _label(e)], grad_scale=e.operator.float("grad_scale", 1.0))


@TABLE.op("regraft.SVMOutput")
def svm_output(e: Emission) -> Reference:
    o = e.operator
    return e.node(
        "SVMOutput", [e.input(), _label(e)], margin=o.float("margin", 1.0),
        regularization_coefficient=o.float("regularization_coefficient", 1.0),
        use_linear=bool(o.int("use_linear", 0)),
    )  # fmt: skip


@TABLE.op("regraft.MakeLoss")
def make_loss(e: Emission) -> Reference:
    o = e.operator
    return e.node(
        "MakeLoss", [e.input()], grad_scale=o.float("grad_scale", 1.0),
        normalization=o.str("normalization", "null"), valid_thresh=o.float("valid_thresh", 0.0),
    )  # fmt: skip
