"""Arguments of the frameworks' functions: names that mean the same, and values that they take."""

from __future__ import annotations

_KIN: tuple[tuple[str, ...], ...] = (
    ("dim", "axis", "dims", "axes", "begin_norm_axis", "reduce_axis", "normalized_dim"),
    ("keepdim", "keepdims", "keep_dims"),
    ("correction", "ddof", "unbiased"),
    ("negative_slope", "alpha", "slope"),
    ("eps", "epsilon"),
    ("p", "ord", "pord"),
    ("lambd", "lambda", "threshold", "thr"),
    ("kernel_size", "kernel_shape"),
    ("diagonal", "k", "offset"),
    ("upscale_factor", "block_size"),
    ("shifts", "shift"),
    ("min", "clip_value_min", "min_val"),
    ("max", "clip_value_max", "max_val"),
    ("pad", "padding", "paddings"),
    ("value", "padding_value", "pad_value", "fill_value", "mask_value"),
    ("mode", "padding_mode"),
    ("weight", "weights"),
    ("target", "labels", "label"),
    ("beta", "delta"),
    ("size", "output_size"),
    ("repeats", "multiples", "reps"),
    ("descending", "largest"),
    ("normalized_shape", "shape"),
    ("start_dim", "begin_axis"),
    ("dim0", "axis0"),
    ("dim1", "axis1", "axis2"),
)

KIN: dict[str, tuple[str, ...]] = {name: names for names in _KIN for name in names}
"""Argument -> all names that mean the same in one function or another."""

AXES = frozenset(
    {
        *_KIN[0],
        "start_dim",
        "end_dim",
        "dim0",
        "dim1",
        "dim2",
        "axis0",
        "axis1",
        "axis2",
        "source",
        "destination",
    }
)
"""Arguments that are an axis or several."""

CHOICES: dict[str, tuple[str, ...]] = {
    "reduction": ("mean", "sum", "none", "batchmean"),
    "approximate": ("none", "tanh"),
    "rounding_mode": ("floor", "trunc"),
    "indexing": ("ij", "xy"),
    "mode": (
        "constant",
        "reflect",
        "replicate",
        "circular",
        "edge",
        "nearest",
        "nearest-exact",
        "bilinear",
        "linear",
        "bicubic",
        "trilinear",
        "area",
        "CONSTANT",
        "REFLECT",
        "SYMMETRIC",
    ),
    "padding_mode": ("zeros", "border", "reflection", "constant", "reflect", "replicate", "circular"),
    "pad_mode": ("valid", "same", "pad"),
    "padding": ("valid", "same"),
    "ord": ("fro", "nuc"),
    "side": ("left", "right"),
    "interpolation": ("linear", "lower", "higher", "midpoint", "nearest"),
    "activation": ("relu", "gelu", "tanh"),
    "nonlinearity": ("relu", "tanh"),
    "norm": ("ortho", "forward", "backward"),
}
"""Argument -> the words that it may be."""

STEERING = frozenset(
    {"align_corners", "unbiased", "keepdim", "keepdims", "keep_dims", "recompute_scale_factor"}
)
"""Arguments that are true or false, and nothing by default."""
