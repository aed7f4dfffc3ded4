"""Activations: rows for those that only change their name, functions for those with misleading defaults."""

from __future__ import annotations

import math

import numpy as np

from ....frameworks.record import SLOPE
from ....ir import Parameter
from ...source.emitting import (
    Always,
    Argument,
    Call,
    EmitterTable,
    Expression,
    Literal,
    NnClass,
    NnLayer,
    Refused,
    State,
    View,
)
from ...source.expressions import ADD, MULTIPLY, Access, Helper, call, infix, mark_light, only_call
from ..operators import DOMAIN
from .initializers import construct

TABLE = EmitterTable()

_ROWS = {  # ONNX: (layer, function, whether that is light)
    "Relu": ("ReLU", "relu", True),
    "Mish": ("Mish", "mish", True),
    "regraft.Swish": ("SiLU", "silu", True),
    "Softsign": ("Softsign", "softsign", False),
    "HardSwish": ("HSwish", "hardswish", True),
    "Softplus": ("", "softplus", False),
    "Erf": ("", "erf", False),
}
"""Operator -> MindSpore's layer, its function, and whether that reads best around the layer before it.

MindSpore's CPU kernels of Log, Exp and functions made of them have a relative error of 5e-6.
"""


def _row(op_type: str, layer: str, function: str, is_light: bool) -> None:
    if layer:
        TABLE.layer(op_type)(lambda _view: NnLayer(Call(NnClass(layer), ())))

    @TABLE.call(op_type)
    def emit(view: View) -> Expression:
        found = call(f"ops.{function}", view.use(0))
        return mark_light(found) if is_light else found


for _op_type, _columns in _ROWS.items():
    _row(_op_type, *_columns)


@TABLE.layer("Sigmoid", "Tanh")
def saturating_layer(view: View) -> NnLayer:
    """Emit nn.Sigmoid, nn.Tanh."""
    return NnLayer(Call(NnClass(view.operator.op_type), ()))


@TABLE.call("Sigmoid", "Tanh")
def saturating(view: View) -> Expression:
    """Emit ops.sigmoid, ops.tanh."""
    return mark_light(call(f"ops.{view.operator.op_type.lower()}", view.use(0)))


_OWN = tuple(f"{DOMAIN}.{name}" for name in ("Sigmoid", "Tanh", "Mish", "Softmax"))


@TABLE.layer(*_OWN)
def precise_layer(view: View) -> NnLayer:
    """Emit the emitted file's own precise layer."""
    return NnLayer(Call(Helper(view.operator.op_type), ()))


@TABLE.call(*_OWN)
def precise(view: View) -> Expression:
    """Emit a call of the emitted file's own precise function."""
    return mark_light(call(Helper(view.operator.op_type.lower()), view.use(0)))


def _axis(view: View) -> int:
    return view.operator.int("axis")


@TABLE.layer("Softmax", "LogSoftmax")
def softmax_layer(view: View) -> NnLayer:
    """Emit nn.Softmax, nn.LogSoftmax."""
    return NnLayer(Call(NnClass(view.operator.op_type), (Argument("axis", Literal(_axis(view), "axis")),)))


@TABLE.call("Softmax")
def softmax(view: View) -> Expression:
    """Emit ops.softmax."""
    return call("ops.softmax", view.use(0), axis=_axis(view))


@TABLE.call("LogSoftmax")
def log_softmax(view: View) -> Expression:
    """Emit ops.log_softmax."""
    return call("ops.log_softmax", view.use(0), axis=_axis(view))


@TABLE.call(f"{DOMAIN}.LogSoftmax")
def precise_log_softmax(view: View) -> Expression:
    """Emit a call of the emitted file's own log_softmax."""
    return call(Helper("log_softmax"), view.use(0), _axis(view))


@TABLE.layer("LeakyRelu")
def leaky_relu_layer(view: View) -> NnLayer:
    """Emit nn.LeakyReLU, whose alpha defaults to 0.2."""
    return NnLayer(construct("LeakyReLU", alpha=Always(view.operator.float("alpha"))))


@TABLE.call("LeakyRelu")
def leaky_relu(view: View) -> Expression:
    """Emit ops.leaky_relu."""
    return mark_light(call("ops.leaky_relu", view.use(0), alpha=view.operator.float("alpha")))


@TABLE.call("regraft.RRelu")
def rrelu(view: View) -> Expression:
    """Emit ops.rrelu in training, and ops.leaky_relu else: MindSpore's nn.RReLU draws in inference too."""
    if view.type(0).dtype not in ("float16", "float32"):
        raise Refused
    lower, upper = (view.operator.float(name) for name in ("lower", "upper"))
    drawn = call("ops.rrelu", view.use(0), lower, upper)
    mean = call("ops.leaky_relu", view.use(0), alpha=(lower + upper) / 2)
    return Expression(("(", drawn, " if ", Access(("training",)), " else ", mean, ")"))


@TABLE.layer("Elu")
def elu_layer(view: View) -> NnLayer:
    """Emit nn.ELU, which takes no alpha but 1."""
    if view.operator.float("alpha") != 1.0:
        raise Refused
    return NnLayer(Call(NnClass("ELU"), ()))


@TABLE.call("Elu")
def elu(view: View) -> Expression:
    """Emit ops.elu; for an alpha other than 1 the formula."""
    alpha = view.operator.float("alpha")
    if alpha == 1.0:
        return mark_light(call("ops.elu", view.use(0)))
    below = call("ops.expm1", call("ops.clamp", view.use(0), max=0.0))
    negative = infix(Literal(alpha, "alpha"), "*", below, MULTIPLY)
    return infix(call("ops.relu", view.use(0)), "+", negative, ADD)


@TABLE.layer("Selu")
def selu_layer(view: View) -> NnLayer:
    """Emit nn.SeLU, for ONNX's own constants only."""
    _default_selu(view)
    return NnLayer(Call(NnClass("SeLU"), ()))


@TABLE.call("Selu")
def selu(view: View) -> Expression:
    """Emit ops.selu, for ONNX's own constants only."""
    _default_selu(view)
    return call("ops.selu", view.use(0))


def _default_selu(view: View) -> None:
    for name in ("alpha", "gamma"):
        usual = view.operator.signature.attributes[name].default
        assert isinstance(usual, float)
        if not math.isclose(view.operator.float(name), usual, rel_tol=1e-5):
            raise Refused


@TABLE.layer("Celu")
def celu_layer(view: View) -> NnLayer:
    """Emit nn.CELU."""
    return NnLayer(construct("CELU", alpha=view.operator.float("alpha")))


@TABLE.call("Celu")
def celu(view: View) -> Expression:
    """Emit ops.celu."""
    return call("ops.celu", view.use(0), alpha=view.operator.float("alpha"))


@TABLE.layer("Gelu")
def gelu_layer(view: View) -> NnLayer:
    """Emit nn.GELU, which is the tanh approximation by default."""
    return NnLayer(construct("GELU", approximate=Always(_approximate(view) == "tanh")))


@TABLE.call("Gelu")
def gelu(view: View) -> Expression:
    """Emit ops.gelu."""
    return mark_light(call("ops.gelu", view.use(0), approximate=_approximate(view)))


def _approximate(view: View) -> str:
    return view.operator.str("approximate")


@TABLE.layer("HardSigmoid")
def hard_sigmoid_layer(view: View) -> NnLayer:
    """Emit nn.HSigmoid, which is x/6 + 0.5 clipped."""
    if not _is_sixth(view):
        raise Refused
    return NnLayer(Call(NnClass("HSigmoid"), ()))


@TABLE.call("HardSigmoid")
def hard_sigmoid(view: View) -> Expression:
    """Emit ops.hardsigmoid; for other slopes the formula."""
    if _is_sixth(view):
        return call("ops.hardsigmoid", view.use(0))
    alpha, beta = view.operator.float("alpha"), view.operator.float("beta")
    line = infix(
        infix(view.use(0, MULTIPLY), "*", Literal(alpha, "alpha"), MULTIPLY), "+", Literal(beta, "beta"), ADD
    )
    return call("ops.clamp", line, 0.0, 1.0)


def _is_sixth(view: View) -> bool:
    alpha, beta = view.operator.float("alpha"), view.operator.float("beta")
    return math.isclose(alpha, 1 / 6, rel_tol=1e-5) and beta == 0.5


def _bounds(view: View) -> tuple[float | None, float | None]:
    found = tuple(view.scalar(s) if view.has(s) else None for s in (1, 2))
    return found[0], found[1]


_RELU6 = ("float16", "bfloat16", "float32")
"""Element types that MindSpore's ReLU6 takes."""


@TABLE.layer("Clip")
def clip_layer(view: View) -> NnLayer:
    """Emit nn.ReLU6, nn.Hardtanh."""
    low, high = _bounds(view)
    if (low, high) == (0, 6) and view.type(0).dtype in _RELU6:
        return NnLayer(Call(NnClass("ReLU6"), ()))
    if low is None or high is None:
        raise Refused
    return NnLayer(
        Call(
            NnClass("Hardtanh"),
            (Argument("min_val", Literal(low, "min_val")), Argument("max_val", Literal(high, "max_val"))),
        )
    )


@TABLE.call("Clip")
def clip(view: View) -> Expression:
    """Emit ops.relu6, ops.clamp; nothing where there are no bounds."""
    low, high = _bounds(view)
    if low is None and high is None:
        return Expression((view.use(0),))
    if (low, high) == (0, 6) and view.type(0).dtype in _RELU6:
        return mark_light(call("ops.relu6", view.use(0)))
    return call("ops.clamp", view.use(0), min=low, max=high)


@TABLE.layer("PRelu", "regraft.source.PRelu")
def prelu_layer(view: View) -> NnLayer:
    """Emit nn.PReLU: one slope a channel, or one for all."""
    slope = view.parameter(1)
    size = slope.data.shape
    count = int(np.prod(size))
    channels = view.shape()[1] if view.rank() > 1 else None
    per_channel = count == 1 or (count == channels and max(size) == count)
    if not per_channel or slope.data.dtype != "float32":  # nn.PReLU takes no dtype
        raise Refused
    start = (slope.initializer or SLOPE).number("value", SLOPE.number("value"))
    state = State(1, "w") if size == (count,) else State(1, "w", "reshape", (count,))
    first = Always(start) if view.scope.explicit else start
    return NnLayer(construct("PReLU", num_parameters=count, init=first), (state,))


@TABLE.call("PRelu", "regraft.source.PRelu")
def prelu(view: View) -> Expression:
    """Emit the formula, because slopes broadcast as in ONNX."""
    node = view.graph.node(view.value(1).node)
    if (
        isinstance(node, Parameter)
        and len(node.data.shape) == 1
        and view.rank() > 2
        and node.data.shape != (1,)
    ):
        return call("ops.prelu", view.use(0), view.use(1))
    negative = infix(view.use(1, MULTIPLY), "*", call("ops.clamp", view.use(0), max=0.0), MULTIPLY)
    return infix(call("ops.relu", view.use(0)), "+", negative, ADD)


@TABLE.call("ThresholdedRelu")
def thresholded_relu(view: View) -> Expression:
    """Emit ops.threshold with 0 below."""
    return call("ops.threshold", view.use(0), view.operator.float("alpha"), 0.0)


@TABLE.call("Shrink")
def shrink(view: View) -> Expression:
    """Emit ops.hardshrink, ops.softshrink."""
    bias, lambd = view.operator.float("bias"), view.operator.float("lambd")
    if bias not in (0.0, lambd):
        raise Refused
    return call("ops.softshrink" if bias else "ops.hardshrink", view.use(0), lambd)


def _ratio(view: View) -> float:
    if view.has(2) and view.constant(2) is not None and bool(view.scalar(2)):
        raise Refused  # dropout in inference too
    if view.used_outputs() > 1:
        raise Refused
    ratio = float(view.scalar(1, 0.5))
    if ratio >= 1.0:
        raise Refused  # MindSpore's drops less than everything
    return ratio


@TABLE.layer("Dropout")
def dropout_layer(view: View) -> NnLayer:
    """Emit nn.Dropout with p=; its first positional argument would be the probability of keeping."""
    return NnLayer(Call(NnClass("Dropout"), (Argument("p", Literal(_ratio(view), "dropout")),)))


@TABLE.call("Dropout")
def dropout(view: View) -> Expression:
    """Emit ops.dropout, in training only; it takes no ratio of 1."""
    if view.has(1) and not view.has(2) and view.used_outputs() == 1 and float(view.scalar(1)) >= 1.0:
        zeros = call("ops.zeros_like", view.use(0))
        return Expression(("(", zeros, " if ", Access(("training",)), " else ", view.use(0), ")"))
    return _in_training(call("ops.dropout", view.use(0), p=_ratio(view)))


def _channels(view: View) -> str:
    """Return the name of MindSpore's dropout of whole channels for an operand's rank."""
    rank = view.rank()
    if rank not in (3, 4, 5):
        raise Refused
    return f"ropout{rank - 2}d"


@TABLE.layer("regraft.FeatureDropout")
def feature_dropout_layer(view: View) -> NnLayer:
    """Emit nn.Dropout1d, nn.Dropout2d, nn.Dropout3d."""
    ratio = Literal(round(view.operator.float("ratio"), 7), "dropout")
    return NnLayer(Call(NnClass(f"D{_channels(view)}"), (Argument("p", ratio),)))


@TABLE.call("regraft.FeatureDropout")
def feature_dropout(view: View) -> Expression:
    """Emit ops.dropout1d, ops.dropout2d, ops.dropout3d, in training only."""
    return _in_training(
        call(f"ops.d{_channels(view)}", view.use(0), p=round(view.operator.float("ratio"), 7))
    )


def _in_training(inner: Expression) -> Expression:
    applied = only_call(inner)
    assert applied is not None
    training = Argument("training", Access(("training",)))
    return mark_light(Expression((Call(applied.callee, (*applied.arguments, training)),)))
