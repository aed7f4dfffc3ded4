"""Normalisation layers, with epsilon and momentum always written out."""

from __future__ import annotations

import numpy as np

from ....frameworks.mindspore import MINDSPORE
from ....ir import Parameter, moving_momentum
from ...source.emitting import (
    Always,
    Argument,
    Call,
    EmitterTable,
    Expression,
    Literal,
    NnLayer,
    Refused,
    State,
    View,
)
from ...source.expressions import (
    ADD,
    ATOM,
    MULTIPLY,
    POWER,
    Attribute,
    Brackets,
    Element,
    Part,
    call,
    infix,
    method,
)
from .initializers import construct, drawn, dtype_argument, ms_dtype

TABLE = EmitterTable()
_NO_KERNEL = 5  # channels that ops.lrn cannot normalise over on CPU, once there are 16 of them


def _drawn(view: View, class_name: str, attribute: str, parameter: Parameter) -> tuple[Argument, ...]:
    """Return a layer's argument for an initial distribution, if that is not the layer's own."""
    usual = MINDSPORE.default_law(class_name, attribute, parameter.data.shape)
    own = parameter.initializer == usual and not view.scope.explicit
    return () if own else drawn(class_name, attribute, parameter)


def _affine(view: View, class_name: str) -> tuple[list[State], list[tuple[str, float]], list[Argument]]:
    """Return state, extra vectors (name, value) and initializer arguments of gamma and beta."""
    states: list[State] = []
    extra: list[tuple[str, float]] = []
    arguments: list[Argument] = []
    for slot, name, fill in ((1, "gamma", 1.0), (2, "beta", 0.0)):
        node = view.graph.node(view.value(slot).node) if view.has(slot) else None
        if isinstance(node, Parameter):
            states.append(State(slot, name))
            arguments += _drawn(view, class_name, name, node)
        else:
            constant = view.constant(slot)
            if view.has(slot) and (constant is None or not np.all(constant == fill)):
                raise Refused
            extra.append((name, fill))
    return states, extra, arguments


def _frozen(extra: list[tuple[str, float]]) -> tuple[Argument, ...]:
    """Return the argument of a layer of which neither scale nor shift is trained."""
    return (Argument("affine", "False"),) if len(extra) == 2 else ()


@TABLE.layer("BatchNormalization")
def batch_norm(view: View) -> NnLayer:
    """Emit nn.BatchNorm1d, 2d, 3d; its momentum keeps the old value, as ONNX's does."""
    rank = view.rank()
    if rank not in (2, 3, 4, 5) or view.type(0).dtype == "float64":
        raise Refused
    if view.operator.int("training_mode") or view.used_outputs() > 1:
        raise Refused
    (size,) = view.static_shape(3)
    name = f"BatchNorm{ {2: 1, 3: 1, 4: 2, 5: 3}[rank] }d"
    states, extra, initials = _affine(view, name)
    mean, variance = view.parameter(3), view.parameter(4)
    states += [State(3, "moving_mean"), State(4, "moving_variance")]
    inner = "bn2d." if rank == 5 else ""
    states = [State(s.slot, inner + s.name) for s in states]
    constructor = construct(
        name,
        num_features=size,
        epsilon=Always(view.operator.float("epsilon")),
        momentum=Always(moving_momentum(view.operator.float("momentum"))),
        affine=_frozen(extra),
        drawn=tuple(initials),
        mean_drawn=_drawn(view, name, "moving_mean", mean),
        variance_drawn=_drawn(view, name, "moving_variance", variance),
        dtype=dtype_argument(variance),
    )
    dtype = variance.data.dtype
    added = tuple((inner + name, fill, size, dtype) for name, fill in extra)
    return NnLayer(constructor, tuple(states), extra=added)


@TABLE.call("BatchNormalization")
def functional_batch_norm(view: View) -> Expression:
    """Emit ops.batch_norm where statistics, scale or shift are computed: no layer takes them."""
    if view.operator.int("training_mode") or view.used_outputs() > 1:
        raise Refused
    if view.type(0).dtype == "float64":  # which the kernel does not have
        return _written_out(view)
    if all(isinstance(view.graph.node(view.value(s).node), Parameter) for s in (1, 2, 3, 4)):
        raise Refused
    x, scale, bias, mean, variance = (view.use(i) for i in range(5))
    return call("ops.batch_norm", x, mean, variance, scale, bias, eps=view.operator.float("epsilon"))


def _written_out(view: View) -> Expression:
    """Return ``(x - mean) / ops.sqrt(variance + eps) * scale + shift``."""
    spatial = (-1,) + (1,) * (view.rank() - 2)

    def along(slot: int) -> Part:
        return method(view.atom(slot), "reshape", *spatial) if view.rank() > 2 else view.tensor(slot, ATOM)

    epsilon = Literal(view.operator.float("epsilon"), "eps")
    deviation = call("ops.sqrt", infix(along(4), "+", epsilon, ADD))
    centred = Brackets(infix(view.use(0, ADD), "-", along(3), ADD))
    scaled = infix(infix(centred, "/", deviation, MULTIPLY), "*", along(1), MULTIPLY)
    return infix(scaled, "+", along(2), ADD)


@TABLE.layer("LayerNormalization")
def layer_norm(view: View) -> NnLayer:
    """Emit nn.LayerNorm, whose epsilon defaults to 1e-7 and whose axes default to the last only."""
    scale = view.parameter(1)
    bias = view.parameter(2)
    if view.used_outputs() > 1:
        raise Refused
    shape = scale.data.shape
    begin = -1 if len(shape) == 1 else view.rank() - len(shape)  # MindSpore takes no other negative axis
    dims: list[Part] = []
    for at, size in enumerate(shape):
        dims += [", "] * bool(at) + [Literal(size, "normalized_size")]
    constructor = construct(
        "LayerNorm",
        normalized_shape=Expression(("[", *dims, "]")),
        begin_norm_axis=begin,
        begin_params_axis=begin,
        epsilon=Always(view.operator.float("epsilon")),
        scale_drawn=_drawn(view, "LayerNorm", "gamma", scale),
        shift_drawn=_drawn(view, "LayerNorm", "beta", bias),
        dtype=dtype_argument(scale),
    )
    return NnLayer(constructor, (State(1, "gamma"), State(2, "beta")))


@TABLE.call("LayerNormalization")
def functional_layer_norm(view: View) -> Expression:
    """Emit the primitive, because ops.layer_norm has no kernel on CPU."""
    if view.used_outputs() > 1:
        raise Refused
    axis = view.operator.int("axis")
    axis %= view.rank()
    axis = -1 if axis == view.rank() - 1 else axis
    primitive = Call(
        "ops.LayerNorm",
        (
            Argument("begin_norm_axis", Literal(axis, "begin_norm_axis")),
            Argument("begin_params_axis", Literal(axis, "begin_params_axis")),
            Argument("epsilon", Literal(view.operator.float("epsilon"), "epsilon")),
        ),
    )
    bias = view.use(2) if view.has(2) else call("ops.zeros_like", view.use(1))
    applied = call(view.scope.attribute("layer_norm", primitive), view.use(0), view.use(1), bias)
    return Expression((Element(applied, 0),))


def _group_norm(view: View, groups: int) -> NnLayer:
    states, extra, initials = _affine(view, "GroupNorm")
    channels = view.shape()[1]
    if not isinstance(channels, int):
        raise Refused
    held = [view.parameter(state.slot) for state in states]
    constructor = construct(
        "GroupNorm",
        num_groups=groups,
        num_channels=channels,
        epsilon=Always(view.operator.float("epsilon")),
        affine=_frozen(extra),
        drawn=tuple(initials),
        dtype=dtype_argument(held[0]) if held else (),
    )
    dtype = held[0].data.dtype if held else "float32"
    return NnLayer(constructor, tuple(states), extra=tuple((n, fill, channels, dtype) for n, fill in extra))


@TABLE.layer("GroupNormalization")
def group_norm(view: View) -> NnLayer:
    """Emit nn.GroupNorm."""
    return _group_norm(view, view.operator.int("num_groups"))


@TABLE.layer("InstanceNormalization")
def instance_norm(view: View) -> NnLayer:
    """Emit nn.GroupNorm with one group per channel, because nn.InstanceNorm has no kernel on CPU."""
    channels = view.shape()[1]
    if not isinstance(channels, int):
        raise Refused
    return _group_norm(view, channels)


@TABLE.call("GroupNormalization", "InstanceNormalization")
def functional_group_norm(view: View) -> Expression:
    """Emit ops.group_norm, if scale and bias are not parameters of the module itself."""
    channels = view.shape()[1]
    if not isinstance(channels, int) or all(
        isinstance(view.graph.node(view.value(s).node), Parameter) for s in (1, 2)
    ):
        raise Refused
    is_group = view.operator.op_type == "GroupNormalization"
    groups = view.operator.int("num_groups") if is_group else channels
    epsilon = view.operator.float("epsilon")
    return call("ops.group_norm", view.use(0), groups, view.use(1), view.use(2), epsilon)


@TABLE.call("LRN")
def lrn(view: View) -> Expression:
    """Emit ops.lrn, whose alpha is not divided by the size; the formula for sizes it does not support."""
    size = view.operator.int("size")
    if size % 2 == 0:
        raise Refused
    alpha = view.operator.float("alpha")
    bias, beta = view.operator.float("bias"), view.operator.float("beta")
    if size != _NO_KERNEL:
        return call("ops.lrn", view.use(0), depth_radius=size // 2, bias=bias, alpha=alpha / size, beta=beta)
    if view.rank() < 3:
        raise Refused
    channels_first = method(method(view.atom(), "square"), "flatten", start_dim=2)
    padded = call("ops.pad", method(channels_first, "expand_dims", 1), (0, 0, size // 2, size // 2))
    mean = method(call("ops.avg_pool2d", padded, (size, 1)), "reshape", Attribute(view.atom(), "shape"))
    scaled = infix(Literal(alpha, "alpha"), "*", mean, MULTIPLY)
    total = infix(Literal(bias, "bias"), "+", scaled, ADD)
    power = infix(Brackets(total), "**", Literal(beta, "beta"), POWER)
    return infix(view.use(0, MULTIPLY), "/", power, MULTIPLY)


@TABLE.call("RMSNormalization")
def rms_norm(view: View) -> Expression:
    """Emit the formula, as ops.rms_norm has no kernel on CPU; in float32, as squares of halves overflow."""
    axis = view.operator.int("axis")
    first = axis - view.rank() if axis >= 0 else axis
    axes = first if first == -1 else tuple(range(first, 0))
    dtype = view.type(0).dtype
    half = dtype in ("float16", "bfloat16")
    x = method(view.atom(), "astype", Expression(("ms.float32",))) if half else view.use(0, ATOM)
    mean = method(method(x, "square"), "mean", axes, keep_dims=True)
    inverse = call("ops.rsqrt", infix(mean, "+", Literal(view.operator.float("epsilon"), "epsilon"), 2))
    scaled = infix(x, "*", inverse, MULTIPLY)
    if half:
        scaled = method(Brackets(scaled), "astype", Expression((ms_dtype(dtype),)))
    return infix(scaled, "*", view.use(1, ATOM), MULTIPLY)
