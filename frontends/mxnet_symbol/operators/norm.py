"""Normalisation layers."""

from __future__ import annotations

import numpy as np

from ....ir import Value, numpy_dtype
from ..call import Use, new_table

TABLE = new_table()


def _at_axis_1(axis: int, rank: int) -> tuple[list[int], bool]:
    """The permutation that swaps an axis with axis 1, and whether it moves anything."""
    order = list(range(rank))
    order[1], order[axis] = order[axis], order[1]
    return order, axis != 1


@TABLE.op("BatchNorm", "BatchNorm_v1")
def batch_norm(use: Use) -> list[Value]:
    """With eps 1e-3 and gamma fixed at 1 unless told; a third output is 1 / deviation."""
    b, (x, gamma, beta, mean, variance) = use.b, use.values()
    epsilon = use.attrs.float("eps", 1e-3)
    momentum = use.attrs.float("momentum", 0.9)
    axis = use.axis(use.attrs.int("axis", 1), use.rank(x))
    three = use.attrs.flag("output_mean_var")
    # use_global_stats only matters in training; the calibration ranges only for int8
    use.attrs.ignore("use_global_stats", "cudnn_off", "min_calib_range", "max_calib_range")
    if use.attrs.flag("fix_gamma", default=True):  # then gamma counts as 1 whatever is stored
        type_ = b.type_of(gamma)
        gamma = b.constant(np.ones(type_.static_shape(), numpy_dtype(type_.dtype)))
    order, moves = _at_axis_1(axis, use.rank(x))
    y = b.op("Transpose", x, perm=order) if moves else x
    y = b.op("BatchNormalization", y, gamma, beta, mean, variance, epsilon=epsilon, momentum=momentum)
    y = b.op("Transpose", y, perm=order) if moves else y
    if not three:
        return [y]
    shifted = b.op("Add", variance, b.scalar_like(epsilon, variance))
    return [y, b.op("Identity", mean), b.op("Reciprocal", b.op("Sqrt", shifted))]


@TABLE.op("LayerNorm")
def layer_norm(use: Use) -> Value:
    """Over one axis, the last unless told."""
    b, (x, gamma, beta) = use.b, use.values()
    rank = use.rank(x)
    axis = use.axis(use.attrs.int("axis", -1), rank)
    epsilon = use.attrs.float("eps", 1e-5)
    if use.attrs.flag("output_mean_var"):
        raise use.unsupported("expected output_mean_var to be False")
    order = list(range(rank))
    order[axis], order[-1] = order[-1], order[axis]
    moves = axis != rank - 1
    y = b.op("Transpose", x, perm=order) if moves else x
    y = b.op("LayerNormalization", y, gamma, beta, axis=-1, epsilon=epsilon)
    return b.op("Transpose", y, perm=order) if moves else y


@TABLE.op("InstanceNorm")
def instance_norm(use: Use) -> Value:
    """Over the axes after the channels; eps is 1e-3 unless told."""
    return use.b.op("InstanceNormalization", *use.values(), epsilon=use.attrs.float("eps", 1e-3))


@TABLE.op("GroupNorm")
def group_norm(use: Use) -> Value:
    """Gamma and beta have one value a group, or one a channel in Gluon."""
    b, (x, gamma, beta) = use.b, use.values()
    groups, epsilon = use.attrs.int("num_groups", 1), use.attrs.float("eps", 1e-5)
    if use.attrs.flag("output_mean_var"):
        raise use.unsupported("expected output_mean_var to be False")
    (channels,) = use.static(x, [1])
    if use.shape(gamma) == (groups,) and groups != channels:  # one value a group, ONNX has one a channel
        each = b.constant([channels // groups])
        gamma, beta = (
            b.op(
                "Reshape",
                b.op(
                    "Expand",
                    b.op("Unsqueeze", v, b.constant([1])),
                    b.op("Concat", b.constant([groups]), each, axis=0),
                ),
                b.constant([channels]),
            )
            for v in (gamma, beta)
        )
    return b.op(
        "GroupNormalization", x, gamma, beta, num_groups=groups, epsilon=epsilon, types=[b.type_of(x)]
    )


@TABLE.op("L2Normalization")
def l2_normalization(use: Use) -> Value:
    """Divided by the root of the sum of squares over the axes that `mode` names."""
    b, x = use.b, use.x
    epsilon, mode = use.attrs.float("eps", 1e-10), use.attrs.text("mode", "instance")
    rank = use.rank(x)
    axes = {"instance": list(range(1, rank)), "channel": [1], "spatial": list(range(2, rank))}.get(mode)
    if axes is None:
        raise use.unsupported(f"expected the mode instance, channel or spatial, got {mode}")
    total = b.op("ReduceSumSquare", x, b.constant(axes))
    return b.op("Div", x, b.op("Sqrt", b.op("Add", total, b.scalar_like(epsilon, x))))


@TABLE.op("LRN")
def local_response_norm(use: Use) -> Value:
    """Across `nsize` channels; alpha is divided by their number, as in ONNX."""
    return use.b.op(
        "LRN",
        use.x,
        alpha=use.attrs.float("alpha", 1e-4),
        beta=use.attrs.float("beta", 0.75),
        bias=use.attrs.float("knorm", 2.0),
        size=use.attrs.int("nsize"),
    )
