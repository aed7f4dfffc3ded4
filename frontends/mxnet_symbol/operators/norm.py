"""Normalisation layers."""

from __future__ import annotations

import numpy as np

from ....ir import Value, numpy_dtype
from ...lowering_table import LoweringTable
from ..call import Call

TABLE = LoweringTable[Call]("MXNet")


def _at_axis_1(axis: int, rank: int) -> tuple[list[int], bool]:
    """Return the permutation that swaps an axis with axis 1, and whether it moves anything."""
    order = list(range(rank))
    order[1], order[axis] = order[axis], order[1]
    return order, axis != 1


@TABLE.op("BatchNorm", "BatchNorm_v1", "_contrib_SyncBatchNorm")
def batch_norm(call: Call) -> list[Value]:
    """Lower BatchNorm, with eps 1e-3 and gamma fixed at 1 by default; a third output is 1 / deviation."""
    x, gamma, beta, mean, variance = call.operands()
    epsilon = call.float("eps", 1e-3)
    momentum = call.float("momentum", 0.9)
    axis = call.axis("axis", call.rank(x), 1)
    three = call.flag("output_mean_var")
    if call.flag("use_global_stats"):
        momentum = 1.0  # training leaves the statistics as they are
    call.ignore("cudnn_off", "min_calib_range", "max_calib_range")  # the ranges are for int8 only
    call.ignore("ndev", "key")  # over how many devices the statistics of training are those of one batch
    if call.flag("fix_gamma", default=True):  # then gamma counts as 1 whatever is stored
        type_ = call.type_of(gamma)
        gamma = call.constant(np.ones(type_.static_shape(), numpy_dtype(type_.dtype)))
    order, moves = _at_axis_1(axis, call.rank(x))
    y = call.op("Transpose", x, perm=order) if moves else x
    y = call.op("BatchNormalization", y, gamma, beta, mean, variance, epsilon=epsilon, momentum=momentum)
    y = call.op("Transpose", y, perm=order) if moves else y
    if not three:
        return [y]
    shifted = call.op("Add", variance, call.scalar_like(epsilon, variance))
    return [y, call.op("Identity", mean), call.op("Reciprocal", call.op("Sqrt", shifted))]


@TABLE.op("LayerNorm")
def layer_norm(call: Call) -> list[Value]:
    """Normalise over one axis, the last by default; return mean and deviation if requested."""
    x, gamma, beta = call.operands()
    rank = call.rank(x)
    axis = call.axis("axis", rank, -1)
    epsilon = call.float("eps", 1e-5)
    order = list(range(rank))
    order[axis], order[-1] = order[-1], order[axis]
    moves = axis != rank - 1
    y = call.op("Transpose", x, perm=order) if moves else x
    y = call.op("LayerNormalization", y, gamma, beta, axis=-1, epsilon=epsilon)
    y = call.op("Transpose", y, perm=order) if moves else y
    return [y, *_moments(call, x, [axis], epsilon)] if call.flag("output_mean_var") else [y]


def _moments(call: Call, x: Value, axes: list[int], epsilon: float) -> list[Value]:
    """Mean and deviation, as a normalisation returns them beside its result; the axes stay."""
    mean = call.op("ReduceMean", x, call.constant(axes), keepdims=1)
    centred = call.op("Sub", x, mean)
    variance = call.op("ReduceMean", call.op("Mul", centred, centred), call.constant(axes), keepdims=1)
    return [mean, call.op("Sqrt", call.op("Add", variance, call.scalar_like(epsilon, x)))]


@TABLE.op("InstanceNorm")
def instance_norm(call: Call) -> Value:
    """Normalise over the axes after the channels; eps is 1e-3 by default."""
    return call.op("InstanceNormalization", *call.operands(), epsilon=call.float("eps", 1e-3))


@TABLE.op("GroupNorm")
def group_norm(call: Call) -> Value:
    """Gamma and beta have one value a group, or one a channel in Gluon."""
    x, gamma, beta = call.operands()
    groups, epsilon = call.int("num_groups", 1), call.float("eps", 1e-5)
    if call.flag("output_mean_var"):
        raise call.unsupported("expected output_mean_var to be False")
    (channels,) = call.static_shape(x, [1])
    if call.shape(gamma) == (groups,) and groups != channels:  # one value a group, ONNX has one a channel
        each = call.constant([channels // groups])
        gamma, beta = (
            call.op(
                "Reshape",
                call.op(
                    "Expand",
                    call.op("Unsqueeze", v, call.constant([1])),
                    call.op("Concat", call.constant([groups]), each, axis=0),
                ),
                call.constant([channels]),
            )
            for v in (gamma, beta)
        )
    elif call.shape(gamma) != (channels,):
        raise call.unsupported(
            f"expected a gamma of {channels} channels or {groups} groups, got {call.shape(gamma)}"
        )
    return call.op(
        "GroupNormalization", x, gamma, beta, num_groups=groups, epsilon=epsilon, types=[call.type_of(x)]
    )


@TABLE.op("L2Normalization")
def l2_normalization(call: Call) -> Value:
    """Divided by the root of the sum of squares over the axes that `mode` names."""
    x = call.value(0)
    epsilon, mode = call.float("eps", 1e-10), call.text("mode", "instance")
    rank = call.rank(x)
    axes = {"instance": list(range(1, rank)), "channel": [1], "spatial": list(range(2, rank))}.get(mode)
    if axes is None:
        raise call.unsupported(f"expected the mode instance, channel or spatial, got {mode}")
    total = call.op("ReduceSumSquare", x, call.constant(axes))
    return call.op("Div", x, call.op("Sqrt", call.op("Add", total, call.scalar_like(epsilon, x))))


@TABLE.op("LRN")
def local_response_norm(call: Call) -> Value:
    """Across `nsize` channels; alpha is divided by their number, as in ONNX."""
    return call.op(
        "LRN",
        call.value(0),
        alpha=call.float("alpha", 1e-4),
        beta=call.float("beta", 0.75),
        bias=call.float("knorm", 2.0),
        size=call.int("nsize"),
    )
