"""Cases of operators on every element."""

import numpy as np

from .case import Case, Input, Weight, floats, integers

X, Y = Input(floats(2, 3, 4)), Input(floats(2, 3, 4, seed=1))
P, U = Input(np.abs(floats(2, 3, 4)) + 0.1), Input(np.tanh(floats(2, 3, 4)) * 0.9)
J, K = Input(integers(2, 3, 4, high=9)), Input(integers(2, 3, 4, high=3) + 1)
B, C = Input(floats(2, 3, 4) > 0), Input(floats(2, 3, 4, seed=1) > 0)
IMAGE = Input(floats(2, 4, 6, 5))

_ANY = "Abs Asinh Atan Ceil Cos Cosh Erf Exp Floor Identity Neg Sign Sin Sinh Tan Tanh Round Sigmoid Relu Elu"
_ANY += " LeakyRelu Selu Softplus Softsign HardSigmoid Celu HardSwish Mish ThresholdedRelu"
_HOLES = Input(np.array([[1, np.nan, 3], [np.inf, -np.inf, 0]], np.float32))

CASES = [
    *(Case(name, X) for name in _ANY.split()),
    *(Case(name, P) for name in ("Log", "Reciprocal", "Sqrt")),
    *(Case(name, U) for name in ("Acos", "Asin", "Atanh")),
    Case("Acosh", Input(P.array + 1)),
    *(Case(name, X, Y) for name in ("Add", "Sub", "Mul")),
    Case("Div", X, P),
    Case("Pow", P, Y),
    *(Case(name, X, Y) for name in ("Max", "Min", "Sum")),
    *(Case(name, X, Y, P, backends=["mindspore"]) for name in ("Max", "Min")),
    Case("Sum", X, Y, P),
    Case("Mod", J, K),
    Case("Mod", X, P, fmod=1),
    *(Case(name, J, K) for name in ("BitwiseAnd", "BitwiseOr", "BitwiseXor")),
    Case("BitwiseNot", J),
    *(Case(name, B, C, backends=["mindspore"]) for name in ("And", "Or", "Xor")),
    Case("Not", B, backends=["mindspore"]),
    *(Case(name, X, Y) for name in ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")),
    *(Case(name, _HOLES) for name in ("IsInf", "IsNaN")),
    Case("Round", Input(np.array([0.5, 1.5, -0.5, -2.5, 3.4, -np.inf, np.inf, 8388609], np.float32))),
    Case("Where", B, X, Y, backends=["mindspore"]),
]


def _logic(name):
    """On truth values that comparisons give: MXNet has no others."""

    def build(b, x, y):
        found = b.op(name, b.op("Greater", x, y), b.op("Less", x, b.constant(np.float32(0.5))))
        return b.op("Cast", found, to=1)

    return build


def _where(b, x, y):
    return b.op("Where", b.op("Greater", x, y), x, b.op("Mul", y, y))


def _where_of_fewer_axes(b, x, y):
    """A number, and numbers along the last axis, chosen by truth values of two element types."""
    whole = b.op("Cast", y, to=6)
    chosen = b.op("And", b.op("Greater", x, y), b.op("Greater", whole, b.scalar_like(0, whole)))
    row = b.constant(np.arange(b.type_of(x).static_shape()[-1], dtype=np.float32))
    return b.op("Where", chosen, row, b.constant(np.float32(-2)))


def _not(b, x, y):
    return b.op("Cast", b.op("Not", b.op("Greater", x, y)), to=1)


CASES += [
    *(Case(name, X, Y, build=_logic(name)) for name in ("And", "Or", "Xor")),
    Case("Not", X, Y, build=_not),
    Case("Where", X, Y, build=_where),
    Case("Where", X, Y, build=_where_of_fewer_axes, backends=["mxnet"]),
    Case("Cast", X, to=6),
    Case("Clip", X, np.float32(-0.5), np.float32(0.5)),
    Case("HardSigmoid", X, alpha=1 / 6),
    Case("Gelu", X),
    Case("Gelu", X, approximate="tanh", backends=["mindspore"]),
    Case("PRelu", IMAGE, Weight(floats(4, 1, 1))),
    Case("Shrink", X, bias=0.3, lambd=0.3),
    Case("Softmax", X, axis=-1),
    Case("LogSoftmax", X, axis=1),
    Case("Dropout", X, np.float32(0.3)),
    Case("regraft.FeatureDropout", IMAGE, ratio=0.3, oracle=lambda x, ratio: x),
    Case("regraft.Print", IMAGE, X, kind="Print", parts='["x is", null, [1, 2.5]]', backends=["mindspore"]),
    Case(
        "regraft.RRelu",
        X,
        lower=0.1,
        upper=0.4,
        oracle=lambda x, lower, upper: np.where(x < 0, np.float32(0.25) * x, x),
    ),
    Case("regraft.Swish", X, oracle=lambda x: x / (1 + np.exp(-x))),
    Case("regraft.StopGradient", X, oracle=lambda x: x),
]
