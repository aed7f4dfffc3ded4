"""Activations."""

from __future__ import annotations

from ....ir import Value
from ...lowering_table import LoweringTable
from ..call import Lowering, Use

TABLE: LoweringTable[Lowering] = LoweringTable("MindSpore")
TABLE.direct(
    {
        "ReLU": "Relu",
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


@TABLE.op("GeLU")
def gelu(use: Use) -> Value:
    """The primitive is the tanh approximation; the exact form is spelt with Erf."""
    return use.emit("Gelu", use.tensor(0), approximate="tanh")


@TABLE.op("ReLU6")
def relu6(use: Use) -> Value:
    x = use.tensor(0)
    return use.emit("Clip", x, use.b.scalar_like(0, x), use.b.scalar_like(6, x))


@TABLE.op("HSigmoid")
def hard_sigmoid(use: Use) -> Value:
    return use.emit("HardSigmoid", use.tensor(0), alpha=1 / 6, beta=0.5)


@TABLE.op("Softmax")
def softmax(use: Use) -> Value:
    axes = use.ints(1)
    if len(axes) != 1:
        raise use.unsupported(f"expected one axis, got {axes}")
    return use.emit("Softmax", use.tensor(0), axis=axes[0])


@TABLE.op("LogSoftmax")
def log_softmax(use: Use) -> Value:
    return use.emit("LogSoftmax", use.tensor(0), axis=use.int(1))


@TABLE.op("Elu")
def elu(use: Use) -> Value:
    return use.emit("Elu", use.tensor(0), alpha=use.float(1))


@TABLE.op("CeLU")
def celu(use: Use) -> Value:
    return use.emit("Celu", use.tensor(0), alpha=use.float(1))


@TABLE.op("PReLU")
def prelu(use: Use) -> Value:
    """The slope is per channel of axis 1."""
    x, slope = use.tensor(0), use.tensor(1)
    trailing = use.rank(x) - 2
    if trailing > 0 and use.b.type_of(slope).shape != (1,):
        slope = use.b.op("Unsqueeze", slope, use.b.constant(list(range(1, 1 + trailing))))
    return use.emit("PRelu", x, slope)


@TABLE.op("HShrink")
def hard_shrink(use: Use) -> Value:
    return use.emit("Shrink", use.tensor(0), lambd=use.float(1), bias=0.0)


@TABLE.op("SoftShrink")
def soft_shrink(use: Use) -> Value:
    bound = use.float(1)
    return use.emit("Shrink", use.tensor(0), lambd=bound, bias=bound)


@TABLE.op("FastGeLU")
def fast_gelu(use: Use) -> Value:
    """X * sigmoid(1.702 x)."""
    x = use.tensor(0)
    return use.emit("Mul", x, use.b.op("Sigmoid", use.b.op("Mul", x, use.b.scalar_like(1.702, x))))


@TABLE.op("Identity")
def identity(use: Use) -> Value:
    """Nothing happens, so nothing is built."""
    return use.tensor(0)
