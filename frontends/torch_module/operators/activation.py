"""Lowerings of activations, softmax and dropout."""

from __future__ import annotations

from ....ir import Value
from ...formulas import rectify
from ...lowering_table import Lowering, LoweringTable
from ..call import Call

TABLE = LoweringTable[Call]("torch")
TABLE.direct(
    {
        "aten.hardswish.default": "HardSwish",
        "aten.mish.default": "Mish",
        "aten.silu.default": "regraft.Swish",
    }
)


@TABLE.op("aten.relu.default")
def relu(call: Call) -> Value:
    return rectify(call, call.value("self"))


@TABLE.op("aten.gelu.default")
def gelu(call: Call) -> Value:
    """Exact, or by the tanh approximation."""
    return call.op("Gelu", call.value("self"), approximate=call.text("approximate"))


@TABLE.op("aten.leaky_relu.default")
def leaky_relu(call: Call) -> Value:
    """Lower LeakyReLU with an explicit slope below zero."""
    return call.op("LeakyRelu", call.value("self"), alpha=call.float("negative_slope"))


@TABLE.op("aten.elu.default")
def elu(call: Call) -> Value:
    """Lower ELU, without the two factors that only SELU uses."""
    call.require("scale", 1)
    call.require("input_scale", 1)
    return call.op("Elu", call.value("self"), alpha=call.float("alpha"))


@TABLE.op("aten.selu.default")
def selu(call: Call) -> Value:
    """ONNX's defaults are the float32 roundings of the constants that torch uses."""
    return call.op("Selu", call.value("self"), alpha=1.6732632423543772, gamma=1.0507009873554805)


@TABLE.op("aten.celu.default")
def celu(call: Call) -> Value:
    """Return ``max(0, x) + min(0, alpha * (exp(x / alpha) - 1))``; ONNX has it for float32 only."""
    x, alpha = call.value("self"), call.float("alpha")
    if call.dtype == "float32":
        return call.op("Celu", x, alpha=alpha)
    zero, one, scale = (call.scalar_like(n, x) for n in (0, 1, alpha))
    below = call.op("Sub", call.op("Exp", call.op("Div", call.op("Min", x, zero), scale)), one)
    return call.op("Add", call.op("Max", x, zero), call.op("Mul", scale, below))


@TABLE.op("aten.prelu.default")
def prelu(call: Call) -> Value:
    """Return one slope, or one a channel (axis 1), which ONNX broadcasts from the right."""
    x, slope = call.value("self"), call.value("weight")
    count, rank = call.static_shape("weight"), call.rank("self")
    if count and count[0] != 1 and rank > 2:
        slope = call.op("Reshape", slope, call.constant([count[0]] + [1] * (rank - 2)))
    elif count and rank == 0:
        slope = call.op("Squeeze", slope, call.constant([0]))
    return call.op("PRelu", x, slope)


@TABLE.op("aten.hardsigmoid.default")
def hardsigmoid(call: Call) -> Value:
    """Slope 1/6; ONNX's default is 0.2."""
    return call.op("HardSigmoid", call.value("self"), alpha=1 / 6, beta=0.5)


@TABLE.op("aten.hardtanh.default")
def hardtanh(call: Call) -> Value:
    """Return a clip to given bounds (ReLU6 among them)."""
    low, high = call.operand("min_val", call.dtype), call.operand("max_val", call.dtype)
    return call.op("Clip", call.value("self"), low, high)


@TABLE.op("aten.relu6.default")
def relu6(call: Call) -> Value:
    """Return a clip to 0 and 6."""
    return call.op("Clip", call.value("self"), call.constant(0, call.dtype), call.constant(6, call.dtype))


@TABLE.op("aten.softplus.default")
def softplus(call: Call) -> Value:
    """Return ``log(1 + exp(beta * x)) / beta``; torch is linear above a threshold where the two agree."""
    x, beta, threshold = call.value("self"), call.float("beta"), call.float("threshold")
    scale = call.scalar_like(beta, x)
    scaled = x if beta == 1 else call.op("Mul", x, scale)
    y = call.op("Softplus", scaled) if beta == 1 else call.op("Div", call.op("Softplus", scaled), scale)
    if threshold >= 20:  # above which it makes no difference
        return y
    return call.op("Where", call.op("Greater", scaled, call.scalar_like(threshold, x)), x, y)


@TABLE.op("aten.log_sigmoid.default")
def log_sigmoid(call: Call) -> Value:
    """Return ``-softplus(-x)``, which does not overflow."""
    return call.op("Neg", call.op("Softplus", call.op("Neg", call.value("self"))))


@TABLE.op("aten.rrelu.default")
def rrelu(call: Call) -> Value:
    """Lower RReLU, which draws slopes only in training."""
    if call.flag("training"):
        raise call.unsupported("expected `training=self.training`, got slopes drawn in evaluation too")
    call.ignore("generator")
    return call.op("regraft.RRelu", call.value("self"), lower=call.float("lower"), upper=call.float("upper"))


@TABLE.op("aten.threshold.default")
def threshold(call: Call) -> Value:
    """Return a value where ``x`` is not above the threshold; NaN stays."""
    x = call.value("self")
    below = call.op("LessOrEqual", x, call.operand("threshold", call.dtype))
    return call.op("Where", below, call.operand("value", call.dtype), x)


@TABLE.op("aten.hardshrink.default")
def hardshrink(call: Call) -> Value:
    """Zero within ``lambd`` of zero."""
    x = call.value("self")
    inside = call.op("LessOrEqual", call.op("Abs", x), call.operand("lambd", call.dtype))
    return call.op("Where", inside, call.constant(0, call.dtype), x)


@TABLE.op("aten.softshrink.default")
def softshrink(call: Call) -> Value:
    """Shrunk towards zero by ``lambd``."""
    return call.op("Shrink", call.value("self"), lambd=call.float("lambd"), bias=call.float("lambd"))


@TABLE.op("aten.glu.default")
def glu(call: Call) -> Value:
    """Return one half gated by the sigmoid of the other."""
    axis = call.axis("dim")
    left, right = call.ops("Split", call.value("self"), outputs=2, axis=axis, num_outputs=2)
    return call.op("Mul", left, call.op("Sigmoid", right))


def _softmax(op_type: str) -> Lowering[Call]:
    def softmax(call: Call) -> Value:
        x = call.value("self")
        call.ignore("dtype")  # the result has it
        call.ignore("half_to_float")  # likewise
        x = call.cast(x, call.dtype)
        if call.rank("self") == 0:
            call.ignore("dim")
            vector = call.op(op_type, call.op("Unsqueeze", x, call.constant([0])), axis=0)
            return call.op("Squeeze", vector, call.constant([0]))
        return call.op(op_type, x, axis=call.int("dim"))

    return softmax


TABLE.op("aten.softmax.int", "aten._softmax.default")(_softmax("Softmax"))
TABLE.op("aten.log_softmax.int", "aten._log_softmax.default")(_softmax("LogSoftmax"))


@TABLE.op("aten.dropout.default", "aten.feature_dropout.default")
def dropout(call: Call) -> Value:
    """Kept with its ratio and without a mode: identity in inference, active where the target trains."""
    if call.flag("train") and call.float("p"):
        raise call.unsupported(
            "expected `training=self.training`, got a dropout that is active in evaluation too: two runs of "
            "the model itself differ",
            hint="write `F.dropout(x, p, training=self.training)`, or nn.Dropout(p) as a layer",
        )
    if call.operator.startswith("aten.feature_dropout") and call.rank("input") != 2:
        ratio = call.float("p")
        return (
            call.op("regraft.FeatureDropout", call.value("input"), ratio=ratio)
            if ratio
            else call.value("input")
        )
    return call.op("Dropout", call.value("input"), call.constant(call.float("p"), "float32"))
