"""Normalisation layers, with epsilon and momentum where they are not torch's defaults."""

from __future__ import annotations

import numpy as np

from ....ir import CUMULATIVE, Parameter, moving_momentum
from ...source.dialect import ABSENT_PARAMETER
from ...source.emitting import (
    Always,
    Argument,
    Call,
    EmitterTable,
    Expression,
    Extra,
    NnLayer,
    Refused,
    State,
    View,
    optional,
)
from ...source.expressions import (
    ADD,
    ATOM,
    MULTIPLY,
    Access,
    Attribute,
    Brackets,
    Literal,
    call,
    infix,
    method,
)
from .initializers import DRAWN, construct, dtype_argument, laws_of_layer, without_bias

TABLE = EmitterTable()

_COUNTER = ("num_batches_tracked", 0.0, (), "int64")


def _affine(
    view: View, scale: int, bias: int
) -> tuple[dict[str, Parameter], list[State], list[tuple[str, float]]]:
    """Return the parameters, their state, and (name, value) of those that are constants."""
    held: dict[str, Parameter] = {}
    states: list[State] = []
    filled: list[tuple[str, float]] = []
    for slot, name, fill in ((scale, "weight", 1.0), (bias, "bias", 0.0)):
        node = view.graph.node(view.value(slot).node) if view.has(slot) else None
        if isinstance(node, Parameter):
            held[name] = node
            states.append(State(slot, name))
            continue
        constant = view.constant(slot)
        if view.has(slot) and (constant is None or not np.all(constant == fill)):
            raise Refused
        filled.append((name, fill))
    return held, states, filled


def _fixed(view: View, filled: list[tuple[str, float]], dtype: str) -> tuple[Extra, ...]:
    """Return the scale of a layer that trains only its shift; torch's layers have both."""
    channels = view.shape()[1]
    if len(filled) != 1 or filled[0][0] == "bias" or not isinstance(channels, int):
        return ()
    ((name, fill),) = filled
    return ((name, fill, channels, dtype),)


def _unshifted(filled: list[tuple[str, float]]) -> tuple[Argument, ...]:
    """Return the argument for a layer that has a scale alone: ``layer.bias = None``."""
    is_scaled = [name for name, _ in filled] == ["bias"]
    return (Argument(f"bias{DRAWN}", ABSENT_PARAMETER),) if is_scaled else ()


@TABLE.layer("BatchNormalization")
def batch_norm(view: View) -> NnLayer:
    """Emit nn.BatchNorm1d, 2d, 3d; its momentum is the share of the new value, ONNX's that of the old.

    A layer that was torch's nn.InstanceNorm with running statistics is that one again.
    """
    rank = view.rank()
    if rank not in (2, 3, 4, 5) or view.operator.int("training_mode") or view.used_outputs() > 1:
        raise Refused
    (size,) = view.static_shape(3)
    if _keeps_statistics(view):
        raise Refused  # torch's layer would normalise by those of the batch in training
    held, states, filled = _affine(view, 1, 2)
    held |= {"running_mean": view.parameter(3), "running_var": view.parameter(4)}
    states += [State(3, "running_mean"), State(4, "running_var")]
    name = _was_instance_norm(view) or f"BatchNorm{ {2: 1, 3: 1, 4: 2, 5: 3}[rank] }d"
    constructor = construct(
        name,
        num_features=size,
        epsilon=view.operator.float("epsilon"),
        momentum=None if view.operator.float("momentum") == CUMULATIVE else _momentum(view),
        affine=len(filled) < 2,
        track_running_stats=True,
        laws=(*laws_of_layer(view, name, held), *_unshifted(filled)),
        dtype=dtype_argument(held["running_var"]),
    )
    fixed = _fixed(view, filled, held["running_var"].data.dtype)
    return NnLayer(constructor, tuple(states), extra=(*fixed, _COUNTER))


def _was_instance_norm(view: View) -> str:
    """Return the class of torch's layer that normalises each sample in training; empty for any other."""
    call = view.operator.call
    if call is None or view.graph.origin.framework != "torch":
        return ""
    module = view.graph.modules.module(view.graph.modules.call(call).module)
    is_one = module.class_name == f"InstanceNorm{view.rank() - 2}d" and not module.namesake
    return module.class_name if is_one else ""


def _momentum(view: View) -> float:
    """Return the share of the new value in running statistics, which the function takes as a number."""
    kept = moving_momentum(view.operator.float("momentum"))
    return round(float(np.float32(1) - np.float32(kept)), 7)


def _keeps_statistics(view: View) -> bool:
    """Whether training normalises by the running statistics too: MXNet's `use_global_stats`."""
    if view.operator.float("momentum") != 1.0:
        return False
    node = view.graph.node(view.value(3).node)
    framework = view.graph.origin.framework
    # torch's own layer of a cumulative average has no momentum
    return framework == "mxnet" or (framework == "torch" and not getattr(node, "role", ""))


@TABLE.call("BatchNormalization")
def functional_batch_norm(view: View) -> Expression:
    """Emit F.batch_norm, where no layer takes statistics, scale or shift."""
    if view.operator.int("training_mode") or view.used_outputs() > 1:
        raise Refused
    x, scale, bias, mean, variance = (view.tensor(i) for i in range(5))
    nodes = [view.graph.node(view.value(slot).node) for slot in (3, 4)]
    is_updated = view.graph.origin.framework in ("mxnet", "onnx", "torch") and not _keeps_statistics(view)
    training: tuple[Argument, ...] = ()
    if is_updated and all(isinstance(node, Parameter) and node.is_buffer for node in nodes):
        momentum = optional("momentum", _momentum(view), 0.1)
        training = (Argument("training", Access(("training",))), momentum)
    epsilon = optional("eps", round(view.operator.float("epsilon"), 12), 1e-5)
    given = (Argument("", part) for part in (x, mean, variance, scale, bias))
    return Expression((Call("F.batch_norm", (*given, *training, epsilon)),))


@TABLE.layer("LayerNormalization")
def layer_norm(view: View) -> NnLayer:
    """Emit nn.LayerNorm."""
    if view.used_outputs() > 1:
        raise Refused
    weight = view.parameter(1)
    bias = view.parameter(2) if view.has(2) else None
    shape = weight.data.shape
    if bias is not None and bias.data.shape != shape:
        raise Refused
    axis = view.operator.int("axis") % view.rank()
    if view.rank() - axis != len(shape):
        raise Refused
    constructor = construct(
        "LayerNorm",
        normalized_shape=shape[0] if len(shape) == 1 else tuple(shape),
        epsilon=view.operator.float("epsilon"),
        bias=without_bias(bias is not None),
        laws=laws_of_layer(view, "LayerNorm", {"weight": weight, "bias": bias}),
        dtype=dtype_argument(weight),
    )
    states = (State(1, "weight"), *([State(2, "bias")] if bias is not None else []))
    return NnLayer(constructor, states)


@TABLE.call("LayerNormalization")
def functional_layer_norm(view: View) -> Expression:
    """Emit F.layer_norm; scale and shift have the sizes of the axes, which a run may say."""
    if view.used_outputs() > 1:
        raise Refused
    sizes = tuple(view.shape()[view.operator.int("axis") % view.rank() :])
    if view.shape(1) != sizes or (view.has(2) and view.shape(2) != sizes):
        raise Refused
    is_known = all(isinstance(size, int) for size in sizes)
    operands = [view.tensor(1), *([view.tensor(2)] if view.has(2) else [])]
    return call(
        "F.layer_norm",
        view.use(0),
        sizes if is_known else Attribute(view.tensor(1, ATOM), "shape"),
        *operands,
        eps=view.operator.float("epsilon"),
    )


def _channels(view: View) -> int:
    channels = view.shape()[1]
    if not isinstance(channels, int):
        raise Refused
    return channels


@TABLE.layer("GroupNormalization")
def group_norm(view: View) -> NnLayer:
    """Emit nn.GroupNorm."""
    held, states, filled = _affine(view, 1, 2)
    constructor = construct(
        "GroupNorm",
        num_groups=view.operator.int("num_groups"),
        num_channels=_channels(view),
        epsilon=view.operator.float("epsilon"),
        affine=len(filled) < 2,
        laws=(*laws_of_layer(view, "GroupNorm", held), *_unshifted(filled)),
        dtype=dtype_argument(next(iter(held.values()))) if held else (),
    )
    return NnLayer(constructor, tuple(states), extra=_fixed(view, filled, view.type(0).dtype))


@TABLE.layer("InstanceNormalization")
def instance_norm(view: View) -> NnLayer:
    """Emit nn.InstanceNorm1d, 2d, 3d."""
    held, states, filled = _affine(view, 1, 2)
    rank = view.rank()
    if rank not in (3, 4, 5):
        raise Refused
    name = f"InstanceNorm{rank - 2}d"
    constructor = construct(
        name,
        num_features=_channels(view),
        epsilon=view.operator.float("epsilon"),
        affine=len(filled) < 2,
        laws=(*laws_of_layer(view, name, held), *_unshifted(filled)),
        dtype=dtype_argument(next(iter(held.values()))) if held else (),
    )
    return NnLayer(constructor, tuple(states), extra=_fixed(view, filled, view.type(0).dtype))


@TABLE.call("GroupNormalization")
def functional_group_norm(view: View) -> Expression:
    """Emit F.group_norm, with scale and shift as operands."""
    epsilon = view.operator.float("epsilon")
    groups = view.operator.int("num_groups")
    return call("F.group_norm", view.use(0), groups, view.tensor(1), view.tensor(2), eps=epsilon)


@TABLE.call("InstanceNormalization")
def functional_instance_norm(view: View) -> Expression:
    """Emit F.instance_norm, with scale and shift as operands."""
    epsilon = view.operator.float("epsilon")
    return call("F.instance_norm", view.use(0), weight=view.tensor(1), bias=view.tensor(2), eps=epsilon)


@TABLE.call("RMSNormalization")
def rms_norm(view: View) -> Expression:
    """Emit F.rms_norm, over axes whose sizes are known."""
    sizes = view.shape()[view.operator.int("axis") % view.rank() :]
    known = tuple(size for size in sizes if isinstance(size, int))
    if len(known) != len(sizes) or view.shape(1) != known:
        raise Refused
    return call("F.rms_norm", view.use(0), known, view.tensor(1), eps=view.operator.float("epsilon"))


@TABLE.layer("RMSNormalization")
def rms_norm_layer(view: View) -> NnLayer:
    """Emit nn.RMSNorm."""
    weight = view.parameter(1)
    shape = weight.data.shape
    axis = view.operator.int("axis") % view.rank()
    if view.rank() - axis != len(shape):
        raise Refused
    constructor = construct(
        "RMSNorm",
        normalized_shape=shape[0] if len(shape) == 1 else tuple(shape),
        epsilon=Always(view.operator.float("epsilon")),
        laws=laws_of_layer(view, "RMSNorm", {"weight": weight}),
        dtype=dtype_argument(weight),
    )
    return NnLayer(constructor, (State(1, "weight"),))


@TABLE.call("MeanVarianceNormalization")
def mean_variance(view: View) -> Expression:
    """Emit ``(x - x.mean(…)) / (x.std(…) + 1e-9)``, which is never of a variance below zero."""
    axes = tuple(view.operator.ints("axes") or (0, 2, 3))
    mean = method(view.atom(), "mean", axes, keepdim=True)
    deviation = method(view.atom(), "std", axes, correction=0, keepdim=True)
    apart = infix(view.tensor(0, ADD), "-", mean, ADD)
    return infix(Brackets(apart), "/", Brackets(infix(deviation, "+", Literal(1e-9), ADD)), MULTIPLY)
