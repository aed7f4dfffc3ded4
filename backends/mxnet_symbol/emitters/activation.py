"""Emitters of activations, softmaxes and dropout."""

from __future__ import annotations

import numpy as np

from ..symbol import EmitterTable, Reference, View

TABLE = EmitterTable()


_ACTIVATIONS = {
    "Relu": "relu",
    "Sigmoid": "sigmoid",
    "Tanh": "tanh",
    "Softplus": "softrelu",
    "Softsign": "softsign",
}


@TABLE.op(*_ACTIVATIONS)
def activation(e: View) -> Reference:
    """Emit Activation by `act_type`."""
    return e.node("Activation", e.inputs(), act_type=_ACTIVATIONS[e.operator.op_type])


@TABLE.op("LeakyRelu", "Elu")
def leaky(e: View) -> Reference:
    """Emit LeakyReLU, whose slope is also the alpha of elu."""
    kind = "leaky" if e.operator.op_type == "LeakyRelu" else "elu"
    return e.node("LeakyReLU", e.inputs(), act_type=kind, slope=e.operator.float("alpha"))


@TABLE.op("Selu")
def selu(e: View) -> Reference:
    """Emit LeakyReLU in its mode selu."""
    return e.node("LeakyReLU", e.inputs(), act_type="selu")


@TABLE.op("Gelu")
def gelu(e: View) -> Reference:
    """Emit LeakyReLU in its mode gelu, which is the exact one."""
    if e.operator.str("approximate") != "none":
        raise e.refused("expected the exact Gelu, the only one that MXNet has")
    return e.node("LeakyReLU", e.inputs(), act_type="gelu")


@TABLE.op("PRelu")
def prelu(e: View) -> Reference:
    """Emit LeakyReLU with one slope a channel, or one for all."""
    gamma = e.find_parameter("gamma")
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
def hard_sigmoid(e: View) -> Reference:
    """Emit hard_sigmoid."""
    o = e.operator
    return e.node("hard_sigmoid", e.inputs(), alpha=o.float("alpha"), beta=o.float("beta"))


@TABLE.op("Softmax", "LogSoftmax")
def softmax(e: View) -> Reference:
    """Emit Softmax or log_softmax."""
    op = "softmax" if e.operator.op_type == "Softmax" else "log_softmax"
    return e.node(op, e.inputs(), axis=e.operator.int("axis"))


@TABLE.op("Dropout")
def dropout(e: View) -> Reference:
    """Emit Dropout."""
    ratio = e.constant(1) if e.has(1) else np.float32(0.5)
    if ratio is None:
        raise e.refused("expected a constant ratio")
    return e.node("Dropout", [e.input()], p=float(np.float32(ratio)) and round(float(ratio), 7))


@TABLE.op("regraft.RRelu")
def rrelu(e: View) -> Reference:
    """Emit LeakyReLU with slopes that are drawn in training."""
    lower, upper = (round(e.operator.float(name), 7) for name in ("lower", "upper"))
    return e.node("LeakyReLU", [e.input()], act_type="rrelu", lower_bound=lower, upper_bound=upper)


@TABLE.op("regraft.FeatureDropout")
def feature_dropout(e: View) -> Reference:
    """Emit Dropout with one mask for all places of a channel."""
    ratio = round(e.operator.float("ratio"), 7)
    return e.node("Dropout", [e.input()], p=ratio, axes=tuple(range(2, len(e.type().shape or ()))))
