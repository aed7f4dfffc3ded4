"""Arguments of the frameworks' functions: names that mean the same, values that they take, other defaults."""

from __future__ import annotations

from dataclasses import dataclass

_KIN: tuple[tuple[str, ...], ...] = (
    ("dim", "axis", "dims", "axes", "begin_norm_axis", "reduce_axis", "normalized_dim"),
    ("keepdim", "keepdims", "keep_dims"),
    ("correction", "ddof", "unbiased"),
    ("negative_slope", "alpha", "slope"),
    ("eps", "epsilon"),
    ("p", "ord", "pord"),
    ("lambd", "lambda", "threshold"),
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


@dataclass(frozen=True, slots=True)
class Default:
    """An argument of a function whose default is another in torch.

    Attributes:
        argument: its keyword.
        position: its place among those without keyword; past all of them for a keyword alone.
        here: what leaving it out means in MindSpore.
        there: what it means in torch.
        write: what to write for torch's.
        code: the finding.
    """

    argument: str
    position: int
    here: str
    there: str
    write: str
    code: str = "PT114"


_NEVER = 99
_SPREAD = Default("ddof", 2, "divides by n", "by n - 1", "ddof=1", "PT113")
_WINDOW = Default("stride", 2, "moves by 1", "by its window", "stride=kernel_size", "PT110")

OTHER_DEFAULTS: dict[str, Default] = {
    **dict.fromkeys(("std", "var", "std_mean", "var_mean"), _SPREAD),
    **dict.fromkeys(("avg_pool1d", "avg_pool2d", "avg_pool3d"), _WINDOW),
    "leaky_relu": Default("alpha", 1, "has slope 0.2", "0.01", "alpha=0.01", "PT104"),
    "smooth_l1_loss": Default(
        "reduction", 3, "gives the loss of each element", "their mean", 'reduction="mean"', "PT112"
    ),
    "meshgrid": Default("indexing", _NEVER, 'is indexed "xy"', '"ij"', 'indexing="ij"'),
    "median": Default(
        "axis", 1, "is that of the last axis, with its index", "of all elements", "the input flattened"
    ),
    "multinomial": Default("replacement", 2, "draws with replacement", "without", "replacement=False"),
}
"""Function of `mindspore.ops` -> the argument."""
