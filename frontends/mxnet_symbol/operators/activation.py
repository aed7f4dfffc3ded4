"""Activations, softmaxes and dropout."""

from __future__ import annotations

import numpy as np

from ....ir import Value
from ..call import Use, new_table

TABLE = new_table()
TABLE.direct({"relu": "Relu", "sigmoid": "Sigmoid", "softsign": "Softsign"})

_ACTIVATIONS = {
    "relu": "Relu",
    "sigmoid": "Sigmoid",
    "tanh": "Tanh",
    "softrelu": "Softplus",
    "softsign": "Softsign",
    "mish": "Mish",
}


@TABLE.op("Activation")
def activation(use: Use) -> Value:
    """The activation that `act_type` names."""
    kind = use.attrs.text("act_type")
    if kind not in _ACTIVATIONS:
        raise use.unsupported(f"expected an act_type among {', '.join(_ACTIVATIONS)}, got {kind}")
    return use.b.op(_ACTIVATIONS[kind], use.x)


@TABLE.op("LeakyReLU")
def leaky_relu(use: Use) -> Value | list[Value]:
    """Seven functions by `act_type`; the slope of leaky is 0.25 unless told."""
    b, x = use.b, use.x
    kind, slope = use.attrs.text("act_type", "leaky"), use.attrs.float("slope", 0.25)
    lower, upper = use.attrs.float("lower_bound", 0.125), use.attrs.float("upper_bound", 0.334)
    if kind == "leaky":
        return b.op("LeakyRelu", x, alpha=slope)
    if kind == "rrelu":  # inference takes the middle of the range; the second output is undefined
        y = b.op("LeakyRelu", x, alpha=(lower + upper) / 2)
        return [y, y]
    if kind == "elu":
        return b.op("Elu", x, alpha=slope)
    if kind == "selu":
        return b.op("Selu", x)
    if kind == "gelu":
        return b.op("Gelu", x, approximate="none")
    if kind != "prelu":
        raise use.unsupported(f"expected the act_type leaky, rrelu, elu, selu, gelu or prelu, got {kind}")
    gamma, rank = use.input(1), use.rank(x)
    if rank > 2 and use.shape(gamma) != (1,):  # one slope a channel
        gamma = use.reshape(gamma, [*use.shape(gamma), *[1] * (rank - 2)])
    return b.op("PRelu", x, gamma)


@TABLE.op("hard_sigmoid")
def hard_sigmoid(use: Use) -> Value:
    """clip(0.2 x + 0.5, 0, 1) unless told."""
    return use.b.op(
        "HardSigmoid", use.x, alpha=use.attrs.float("alpha", 0.2), beta=use.attrs.float("beta", 0.5)
    )


@TABLE.op("softmax", "softmin", "log_softmax")
def softmax(use: Use) -> Value:
    """Over the last axis unless told; divides by `temperature` first, and may be cut off at a length."""
    b, x = use.b, use.x
    axis = use.axis(use.attrs.int("axis", -1), use.rank(x))
    temperature = use.attrs.text("temperature", "None")
    dtype = use.attrs.text("dtype", "None")
    if use.attrs.flag("use_length"):
        x = _masked(use, x, use.input(1), axis)
    if dtype != "None":
        x = use.cast(x, dtype)
    if use.node.op == "softmin":
        x = b.op("Neg", x)
    if temperature != "None":
        x = b.op("Div", x, b.scalar_like(use.attrs.float("temperature"), x))
    y = b.op("LogSoftmax" if use.node.op == "log_softmax" else "Softmax", x, axis=axis)
    if not use.attrs.flag("use_length"):
        return y
    # a row of length 0 and what lies beyond a length are 0, not a share of nothing
    keep = _within(use, y, use.input(1), axis)
    return b.op("Where", keep, y, b.scalar_like(0.0, y))


def _within(use: Use, x: Value, length: Value, axis: int) -> Value:
    """Whether a position along an axis lies within the length of its row."""
    b, rank = use.b, use.rank(x)
    (size,) = use.static(x, [axis])
    position = b.constant(np.arange(size).reshape([-1 if a == axis else 1 for a in range(rank)]), "int64")
    shape = use.shape(length)
    ends = use.reshape(use.cast(length, "int64"), [*shape[:axis], 1, *shape[axis:]])
    return b.op("Less", position, ends)


def _masked(use: Use, x: Value, length: Value, axis: int) -> Value:
    lowest = use.b.scalar_like(float(np.finfo(use.dtype(x)).min), x)
    return use.b.op("Where", _within(use, x, length, axis), x, lowest)


@TABLE.op("SoftmaxActivation")
def softmax_activation(use: Use) -> Value:
    """Over the last axis, or over axis 1 in the mode "channel"."""
    mode = use.attrs.text("mode", "instance")
    return use.b.op("Softmax", use.x, axis=1 if mode == "channel" else -1)


@TABLE.op("Dropout")
def dropout(use: Use) -> Value:
    """Identity in inference; `p` is the share that is dropped, of elements or of whole channels."""
    mode, axes = use.attrs.text("mode", "training"), use.attrs.ints("axes", ())
    ratio = use.attrs.float("p", 0.5)
    use.attrs.ignore("cudnn_off")
    if mode != "training":
        raise use.unsupported(f"expected the mode training, got {mode}, which is random in inference too")
    if axes and list(axes) == list(range(2, use.rank(use.x))):
        return use.b.op("regraft.FeatureDropout", use.x, ratio=ratio)
    if axes:
        raise use.unsupported(f"expected no axes that share a mask, or all behind the channels, got {axes}")
    return use.b.op("Dropout", use.x, use.b.constant(np.float32(ratio)))
