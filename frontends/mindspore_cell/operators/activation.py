"""Activations."""

from __future__ import annotations

from ....ir import Value
from ...formulas import clip, rectify
from ...lowering_table import LoweringTable
from ..call import Call
from ..compiler import STOPS_GRADIENT

TABLE = LoweringTable[Call]("MindSpore")
TABLE.direct(
    {
        "Sigmoid": "Sigmoid",
        "Tanh": "Tanh",
        "HSwish": "HardSwish",
        "Softplus": "Softplus",
        "Softsign": "Softsign",
        "Mish": "Mish",
        "SiLU": "regraft.Swish",
        "SeLU": "Selu",
    }
)


@TABLE.op("ReLU")
def relu(call: Call) -> Value:
    return rectify(call, call.value(0))


@TABLE.op("GeLU")
def gelu(call: Call) -> Value:
    """Lower GELU: the primitive is the tanh approximation; the exact form is written with Erf."""
    return call.op("Gelu", call.value(0), approximate="tanh")


@TABLE.op("ReLU6")
def relu6(call: Call) -> Value:
    return clip(call, call.value(0), 0, 6)


@TABLE.op("HSigmoid")
def hard_sigmoid(call: Call) -> Value:
    return call.op("HardSigmoid", call.value(0), alpha=1 / 6, beta=0.5)


@TABLE.op("Softmax")
def softmax(call: Call) -> Value:
    axes = call.ints(1)
    if len(axes) != 1:
        raise call.unsupported(f"expected one axis, got {axes}")
    return call.op("Softmax", call.value(0), axis=axes[0])


@TABLE.op("LogSoftmax")
def log_softmax(call: Call) -> Value:
    return call.op("LogSoftmax", call.value(0), axis=call.int(1))


@TABLE.op("Elu")
def elu(call: Call) -> Value:
    return call.op("Elu", call.value(0), alpha=call.float(1))


@TABLE.op("CeLU")
def celu(call: Call) -> Value:
    return call.op("Celu", call.value(0), alpha=call.float(1))


@TABLE.op("PReLU")
def prelu(call: Call) -> Value:
    """Lower PReLU, whose slope is per channel of axis 1."""
    x, slope = call.value(0), call.value(1)
    trailing = call.rank(x) - 2
    if trailing > 0 and call.type_of(slope).shape != (1,):
        slope = call.op("Unsqueeze", slope, call.constant(list(range(1, 1 + trailing))))
    return call.op("PRelu", x, slope)


@TABLE.op("HShrink")
def hard_shrink(call: Call) -> Value:
    return call.op("Shrink", call.value(0), lambd=call.float(1), bias=0.0)


@TABLE.op("SoftShrink")
def soft_shrink(call: Call) -> Value:
    bound = call.float(1)
    return call.op("Shrink", call.value(0), lambd=bound, bias=bound)


@TABLE.op("FastGeLU")
def fast_gelu(call: Call) -> Value:
    """X * sigmoid(1.702 x)."""
    x = call.value(0)
    return call.op("Mul", x, call.op("Sigmoid", call.op("Mul", x, call.scalar_like(1.702, x))))


@TABLE.op("Identity")
def identity(call: Call) -> Value:
    """Nothing happens, so nothing is built, unless it is where a gradient ends."""
    x = call.value(0)
    if call.arg(STOPS_GRADIENT, None) and call.dtype_of(x).startswith(("float", "bfloat")):
        return call.op("regraft.StopGradient", x)
    return x
