"""Activations, softmaxes and dropout."""

from __future__ import annotations

import numpy as np

from ....ir import Value
from ...formulas import rectify
from ...lowering_table import LoweringTable
from ..call import Call

TABLE = LoweringTable[Call]("MXNet")
_ACTIVATIONS = {
    "sigmoid": "Sigmoid",
    "tanh": "Tanh",
    "softrelu": "Softplus",
    "softsign": "Softsign",
    "mish": "Mish",
}


@TABLE.op("relu", "_npx_relu")
def relu(call: Call) -> Value:
    return rectify(call, call.value(0))


@TABLE.op("Activation")
def activation(call: Call) -> Value:
    """Return the activation that `act_type` names."""
    kind = call.text("act_type")
    if kind == "relu":
        return relu(call)
    if kind not in _ACTIVATIONS:
        raise call.unsupported(f"expected an act_type among relu, {', '.join(_ACTIVATIONS)}, got {kind}")
    return call.op(_ACTIVATIONS[kind], call.value(0))


@TABLE.op("LeakyReLU")
def leaky_relu(call: Call) -> Value | list[Value]:
    """Seven functions by `act_type`; the slope of leaky is 0.25 by default."""
    x = call.value(0)
    kind, slope = call.text("act_type", "leaky"), call.float("slope", 0.25)
    lower, upper = call.float("lower_bound", 0.125), call.float("upper_bound", 0.334)
    if kind == "leaky":
        return call.op("LeakyRelu", x, alpha=slope)
    if kind == "rrelu":  # the second output is undefined
        y = call.op("regraft.RRelu", x, lower=lower, upper=upper)
        return [y, y]
    if kind == "elu":
        return call.op("Elu", x, alpha=slope)
    if kind == "selu":
        return call.op("Selu", x)
    if kind == "gelu":
        return call.op("Gelu", x, approximate="none")
    if kind != "prelu":
        raise call.unsupported(f"expected the act_type leaky, rrelu, elu, selu, gelu or prelu, got {kind}")
    gamma, rank = call.value(1), call.rank(x)
    if rank > 2 and call.shape(gamma) != (1,):  # one slope a channel
        gamma = call.reshape(gamma, [*call.shape(gamma), *[1] * (rank - 2)])
    return call.op("PRelu", x, gamma)


@TABLE.op("hard_sigmoid")
def hard_sigmoid(call: Call) -> Value:
    """Return clip(0.2 x + 0.5, 0, 1) by default."""
    return call.op("HardSigmoid", call.value(0), alpha=call.float("alpha", 0.2), beta=call.float("beta", 0.5))


@TABLE.op("softmax", "softmin", "log_softmax")
def softmax(call: Call) -> Value:
    """Lower Softmax, over the last axis by default; divide by `temperature`, and mask beyond a length."""
    x = call.value(0)
    axis = call.axis("axis", call.rank(x), -1)
    temperature = call.text("temperature", "None")
    dtype = call.text("dtype", "None")
    if call.flag("use_length"):
        x = _masked(call, x, call.value(1), axis)
    if call.operator == "softmin":
        x = call.op("Neg", x)
    if temperature != "None":
        x = call.op("Div", x, call.scalar_like(call.float("temperature"), x))
    y = call.op("LogSoftmax" if call.operator == "log_softmax" else "Softmax", x, axis=axis)
    if call.flag("use_length"):  # a row of length 0 and what is beyond a length are 0, not a share of nothing
        y = call.op("Where", _within(call, y, call.value(1), axis), y, call.scalar_like(0.0, y))
    return y if dtype == "None" else call.cast(y, dtype)


def _within(call: Call, x: Value, length: Value, axis: int) -> Value:
    """Whether a position along an axis lies within the length of its row."""
    rank = call.rank(x)
    (size,) = call.static_shape(x, [axis])
    position = call.constant(np.arange(size).reshape([-1 if a == axis else 1 for a in range(rank)]), "int64")
    shape = call.shape(length)
    ends = call.reshape(call.cast(length, "int64"), [*shape[:axis], 1, *shape[axis:]])
    return call.op("Less", position, ends)


def _masked(call: Call, x: Value, length: Value, axis: int) -> Value:
    lowest = call.scalar_like(float(np.finfo(call.dtype_of(x)).min), x)
    return call.op("Where", _within(call, x, length, axis), x, lowest)


@TABLE.op("SoftmaxActivation")
def softmax_activation(call: Call) -> Value:
    """Lower Softmax over the last axis, or over axis 1 in the mode "channel"."""
    mode = call.text("mode", "instance")
    return call.op("Softmax", call.value(0), axis=1 if mode == "channel" else -1)


def _dropped(call: Call, ratio: float, axes: list[int]) -> Value:
    """Drop a share of elements, also in inference; elements along `axes` are dropped together."""
    x = like = call.value(0)
    if axes:
        like = call.op("ReduceMax", x, call.constant([call.from_front(a, call.rank()) for a in axes]))
    drawn = call.op("RandomUniformLike", like, low=0.0, high=1.0)
    kept = call.op("Div", x, call.scalar_like(max(1.0 - ratio, 1e-30), x))
    return call.op(
        "Where", call.op("Less", drawn, call.scalar_like(ratio, like)), call.scalar_like(0.0, x), kept
    )


@TABLE.op("Dropout")
def dropout(call: Call) -> Value:
    """Identity in inference; `p` is the share that is dropped, of elements or of whole channels."""
    mode, axes = call.text("mode", "training"), call.ints("axes", ())
    ratio = call.float("p", 0.5)
    call.ignore("cudnn_off")
    if mode == "always":
        return _dropped(call, ratio, axes)
    if mode != "training":
        raise call.unsupported(f"expected the mode training or always, got {mode}")
    if axes and list(axes) == list(range(2, call.rank(0))):
        return call.op("regraft.FeatureDropout", call.value(0), ratio=ratio)
    if axes:  # one mask, which these axes share
        x = call.value(0)
        one = call.op("Expand", call.scalar_like(1, x), call.op("Shape", x), types=[call.type_of(x)])
        shared = call.constant([call.from_front(a, call.rank(x)) for a in axes])
        return call.op("Mul", x, _dropout(call, call.op("ReduceMax", one, shared), ratio))
    return _dropout(call, call.value(0), ratio)


def _dropout(call: Call, x: Value, ratio: float) -> Value:
    most = np.nextafter(np.float32(1), np.float32(0))  # no runtime takes a ratio of 1, in inference neither
    return call.op("Dropout", x, call.constant(min(np.float32(ratio), most)))
