"""Activations: rows for those that only change their name, functions for those with settings."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ....frameworks.record import SLOPE
from ....frameworks.torch import TORCH
from ....ir import Graph, Operator
from ...source.emitting import (
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
    optional,
)
from ...source.expressions import ADD, MULTIPLY, Access, Helper, call, infix, mark_light, method
from ...source.operators import ARGUMENT
from .initializers import construct, torch_dtype

TABLE = EmitterTable()

_ROWS = {  # operator: (layer, function)
    "Relu": ("ReLU", "F.relu"),
    "Mish": ("Mish", "F.mish"),
    "regraft.Swish": ("SiLU", "F.silu"),
    "Softsign": ("Softsign", "F.softsign"),
    "HardSwish": ("Hardswish", "F.hardswish"),
    "Softplus": ("", "F.softplus"),
    "Sigmoid": ("Sigmoid", "torch.sigmoid"),
    "Tanh": ("Tanh", "torch.tanh"),
}
"""Operator -> torch's layer and function."""


_FRESH = frozenset(
    {"Conv", "BatchNormalization", "GroupNormalization", "InstanceNormalization", "Add", "regraft.Linear"}
)
"""Operators that write a tensor of their own, and of which no gradient needs the result."""


def _in_place(view: View, layer: str) -> tuple[Argument, ...]:
    """Return ``inplace=True`` for a layer that has it in the source, if nothing else reads its input."""
    graph, call = view.graph, view.operator.call
    if graph.origin.framework != "torch" or call is None:
        return ()
    module = graph.modules.module(graph.modules.call(call).module)
    if module.class_name != layer or module.arguments.get("inplace") is not True:
        return ()
    calls = {each.key for each in graph.modules.calls(module.key)}
    runs = [view.operator]
    if len(calls) > 1 and _owns_input(graph, view.operator):
        runs = [node for node in graph.operators() if node.call in calls]
    is_safe = len(runs) == len(calls) and all(_owns_input(graph, node) for node in runs)
    return (optional("inplace", True, False),) if is_safe else ()


def _owns_input(graph: Graph, operator: Operator) -> bool:
    """Whether an operator alone reads its operand, which is a tensor that was made for it."""
    value = graph.operands(operator.key)[0]
    while value is not None and len(graph.users(value)) == 1 and not graph.is_output(value):
        node = graph.producer(value)
        if not isinstance(node, Operator) or node.qualified_name in _FRESH:
            return isinstance(node, Operator)
        value = graph.operands(node.key)[0] if node.qualified_name == ARGUMENT else None
    return False


def _row(op_type: str, layer: str, function: str) -> None:
    if layer:
        TABLE.layer(op_type)(lambda view: NnLayer(Call(NnClass(layer), _in_place(view, layer))))
    TABLE.call(op_type)(lambda view: mark_light(call(function, view.use(0))))


for _op_type, _columns in _ROWS.items():
    _row(_op_type, *_columns)

Settings = Callable[[View], dict[str, tuple[object, object]]]
"""Keyword -> (value, torch's default) of an operator."""


def _softmax(view: View) -> dict[str, tuple[object, object]]:
    dtype = torch_dtype("float32") if view.operator.upcast else None
    return {"dim": (view.operator.int("axis"), None), "dtype": (dtype, None)}


def _alpha(layer: str) -> Settings:
    keyword = TORCH.keyword(layer, "alpha")
    return lambda view: {keyword: (view.operator.float("alpha"), TORCH.layers[layer].defaults[keyword])}


def _gelu(view: View) -> dict[str, tuple[object, object]]:
    return {"approximate": (view.operator.str("approximate"), "none")}


def _hard_sigmoid(view: View) -> dict[str, tuple[object, object]]:
    if not _is_sixth(view):
        raise Refused
    return {}


def _selu(view: View) -> dict[str, tuple[object, object]]:
    for name in ("alpha", "gamma"):
        usual = view.operator.signature.attributes[name].default
        assert isinstance(usual, float)
        if not math.isclose(view.operator.float(name), usual, rel_tol=1e-5):
            raise Refused
    return {}


def _shrink(view: View) -> dict[str, tuple[object, object]]:
    if view.operator.float("bias") not in (0.0, view.operator.float("lambd")):
        raise Refused
    return {"lambd": (view.operator.float("lambd"), 0.5)}


_SETTINGS: dict[str, tuple[str, str, Settings]] = {
    "Softmax": ("Softmax", "F.softmax", _softmax),
    "LogSoftmax": ("LogSoftmax", "F.log_softmax", _softmax),
    "LeakyRelu": ("LeakyReLU", "F.leaky_relu", _alpha("LeakyReLU")),
    "Elu": ("ELU", "F.elu", _alpha("ELU")),
    "Celu": ("CELU", "F.celu", _alpha("CELU")),
    "Selu": ("SELU", "F.selu", _selu),
    "Gelu": ("GELU", "F.gelu", _gelu),
    "HardSigmoid": ("Hardsigmoid", "F.hardsigmoid", _hard_sigmoid),
}
"""Operator -> (torch's layer, its function, their settings)."""


def _with_settings(op_type: str, layer: str, function: str, settings: Settings) -> None:
    @TABLE.layer(op_type)
    def emit_layer(view: View) -> NnLayer:
        if view.operator.upcast:
            raise Refused  # no layer casts
        given = settings(view).items()
        arguments = tuple(optional(name, value, usual) for name, (value, usual) in given)
        return NnLayer(Call(NnClass(layer), (*arguments, *_in_place(view, layer))))

    @TABLE.call(op_type)
    def emit(view: View) -> Expression:
        given = {name: value for name, (value, usual) in settings(view).items() if value != usual}
        return mark_light(call(function, view.use(0), **given))


for _op_type, (_layer, _function, _settings) in _SETTINGS.items():
    if _op_type != "HardSigmoid":
        _with_settings(_op_type, _layer, _function, _settings)


@TABLE.layer("HardSigmoid")
def hard_sigmoid_layer(view: View) -> NnLayer:
    """Emit nn.Hardsigmoid, which is x/6 + 0.5 clipped."""
    _hard_sigmoid(view)
    return NnLayer(Call(NnClass("Hardsigmoid"), ()))


@TABLE.call("HardSigmoid")
def hard_sigmoid(view: View) -> Expression:
    """Emit F.hardsigmoid; for other slopes the formula."""
    if _is_sixth(view):
        return call("F.hardsigmoid", view.use(0))
    alpha, beta = view.operator.float("alpha"), view.operator.float("beta")
    slope = infix(view.use(0, MULTIPLY), "*", Literal(alpha, "alpha"), MULTIPLY)
    line = infix(slope, "+", Literal(beta, "beta"), ADD)
    return call("torch.clamp", line, 0.0, 1.0)


def _is_sixth(view: View) -> bool:
    alpha, beta = view.operator.float("alpha"), view.operator.float("beta")
    return math.isclose(alpha, 1 / 6, rel_tol=1e-5) and beta == 0.5


def _bounds(view: View) -> tuple[float | None, float | None]:
    found = tuple(view.scalar(s) if view.has(s) else None for s in (1, 2))
    return found[0], found[1]


@TABLE.layer("Clip")
def clip_layer(view: View) -> NnLayer:
    """Emit nn.ReLU6, nn.Hardtanh."""
    low, high = _bounds(view)
    if (low, high) == (0, 6):
        return NnLayer(Call(NnClass("ReLU6"), _in_place(view, "ReLU6")))
    if low is None or high is None or not view.type(0).dtype.startswith("float"):
        raise Refused
    return NnLayer(
        Call(NnClass("Hardtanh"), (optional("min_val", low, -1.0), optional("max_val", high, 1.0)))
    )


@TABLE.call("Clip")
def clip(view: View) -> Expression:
    """Emit F.relu6, ``x.clamp(0.0, 1.0)``; bounds that are computed, as torch.clamp takes them."""
    if any(view.has(s) and view.constant(s) is None for s in (1, 2)):
        given = {name: view.tensor(s) for s, name in ((1, "min"), (2, "max")) if view.has(s)}
        return method(view.atom(), "clamp", **given)
    low, high = _bounds(view)
    if low is None and high is None:
        return Expression((view.use(0),))
    if (low, high) == (0, 6) and view.type(0).dtype.startswith("float"):
        return mark_light(call("F.relu6", view.use(0)))
    return method(view.atom(), "clamp", min=low, max=high)


@TABLE.layer("PRelu", "regraft.source.PRelu")
def prelu_layer(view: View) -> NnLayer:
    """Emit nn.PReLU: one slope a channel, or one for all."""
    slope = view.parameter(1)
    size = slope.data.shape
    count = int(np.prod(size))
    if slope.data.dtype != "float32" or not (count == 1 or _is_of_channels(view)):
        raise Refused
    state = State(1, "weight") if size == (count,) else State(1, "weight", "reshape", (count,))
    start = (slope.initializer or SLOPE).number("value", SLOPE.number("value"))
    return NnLayer(construct("PReLU", num_parameters=count, init=start), (state,))


def _is_of_channels(view: View) -> bool:
    """Whether slopes are of the channels, as they are stored or as they broadcast."""
    shape = view.shape(1)
    if view.rank() < 2 or shape[:1] != view.shape()[1:2]:
        return False
    return bool(view.operator.domain) or shape[1:] == (1,) * (view.rank() - 2)


@TABLE.call("regraft.source.PRelu")
def prelu_of_channels(view: View) -> Expression:
    """Emit F.prelu, whose slopes are of the channels."""
    return mark_light(call("F.prelu", view.use(0), view.tensor(1)))


@TABLE.call("PRelu")
def prelu(view: View) -> Expression:
    """Emit the formula, because slopes broadcast as in ONNX."""
    below = method(view.atom(), "clamp", max=0)
    negative = infix(view.tensor(1, MULTIPLY), "*", below, MULTIPLY)
    return infix(method(view.atom(), "clamp", min=0), "+", negative, ADD)


@TABLE.call("ThresholdedRelu")
def thresholded_relu(view: View) -> Expression:
    """Emit F.threshold with 0 below."""
    return call("F.threshold", view.use(0), view.operator.float("alpha"), 0.0)


@TABLE.call("Shrink")
def shrink(view: View) -> Expression:
    """Emit F.hardshrink, F.softshrink."""
    (lambd, _) = _shrink(view)["lambd"]
    return call("F.softshrink" if view.operator.float("bias") else "F.hardshrink", view.use(0), lambd)


def _ratio(view: View) -> float:
    if view.has(2) and view.constant(2) is not None and bool(view.scalar(2)):
        raise Refused  # dropout in inference too
    return float(view.scalar(1, 0.5))


@TABLE.layer("Dropout")
def dropout_layer(view: View) -> NnLayer:
    """Emit nn.Dropout."""
    if view.used_outputs() > 1:
        raise Refused
    return NnLayer(Call(NnClass("Dropout"), (Argument("", Literal(_ratio(view), "dropout")),)))


@TABLE.call("Dropout")
def dropout(view: View) -> Expression:
    """Emit F.dropout, in training only; ``dropped`` where the mask is read."""
    ratio, training = _ratio(view), Access(("training",))
    if view.used_outputs() > 1:
        return Expression(call(Helper("dropped"), view.tensor(0), ratio, training).parts, outputs=2)
    return mark_light(call("F.dropout", view.use(0), p=ratio, training=training))


def _channels(view: View) -> int:
    """Return the number of spatial axes of an operand whose whole channels are dropped."""
    rank = view.rank()
    if rank not in (3, 4, 5):
        raise Refused
    return rank - 2


@TABLE.layer("regraft.FeatureDropout")
def feature_dropout_layer(view: View) -> NnLayer:
    """Emit nn.Dropout1d, nn.Dropout2d, nn.Dropout3d."""
    ratio = Literal(round(view.operator.float("ratio"), 7), "dropout")
    return NnLayer(Call(NnClass(f"Dropout{_channels(view)}d"), (Argument("", ratio),)))


@TABLE.call("regraft.FeatureDropout")
def feature_dropout(view: View) -> Expression:
    """Emit F.dropout1d, F.dropout2d, F.dropout3d, in training only."""
    ratio = round(view.operator.float("ratio"), 7)
    name = f"F.dropout{_channels(view)}d"
    return mark_light(call(name, view.use(0), p=ratio, training=Access(("training",))))
