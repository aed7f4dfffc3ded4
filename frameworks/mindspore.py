"""The layers of mindspore.nn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..ir import Initializer
from .drawing import Drawing, Term, relu_gain
from .record import (
    HE,
    ONES,
    SLOPE,
    ZEROS,
    Arguments,
    Framework,
    Law,
    Layer,
    State,
    normal,
    over_fan_in,
    over_hidden,
    same,
)


def _weighted(weight: Law, bias: Law) -> tuple[State, ...]:
    return State("weight", weight, "weight_init"), State("bias", bias, "bias_init")


_NORM = (
    State("gamma", ONES, "gamma_init", "weight"),
    State("beta", ZEROS, "beta_init", "bias"),
    State("moving_mean", ZEROS, "moving_mean_init", "running_mean"),
    State("moving_variance", ONES, "moving_var_init", "running_var"),
)
_TABLE = (State("embedding_table", normal(0.01), "embedding_table", "weight", kept="init_tensor"),)
_ATTENTION = (
    State("in_proj_bias", ZEROS),
    State("*_proj_weight", Initializer.of("xavier_uniform", gain=1.0)),
    State("bias_[kv]", Initializer.of("xavier_normal", gain=1.0)),
)
"""Distributions of the layer's own parameters; its output projection is a Dense with a Dense's bias."""


_KEYWORDS = {
    "kernel_shape": "kernel_size",
    "strides": "stride",
    "dilations": "dilation",
    "epsilon": "eps",
    "bias": "has_bias",
}
_CHANNELS = {"in_channels": ..., "out_channels": ...}
_FEATURES = {"in_features": "in_channels", "out_features": "out_channels"}
_ROWS = {"num_embeddings": "vocab_size", "embedding_dim": "embedding_size"}
_VOCABULARY = {"vocab_size": ..., "embedding_size": ..., "padding_idx": None}
_WINDOW = {"stride": 1, "pad_mode": "same", "padding": 0, "dilation": 1, "group": 1, "has_bias": False}
_CONV = {**_CHANNELS, "kernel_size": ..., **_WINDOW}
_TRANSPOSE = {**_CONV, "output_padding": 0}
_BATCH = {"num_features": ..., "eps": 1e-5, "momentum": 0.9, "affine": True}
_GROUPS = {"num_groups": ..., "num_channels": ..., "eps": 1e-5, "affine": True}
_LAST = {"normalized_shape": ..., "begin_norm_axis": -1, "begin_params_axis": -1, "epsilon": 1e-7}
_POOL = {"kernel_size": 1, "stride": 1, "pad_mode": "valid", "padding": 0, "ceil_mode": False}
_CELL = {"input_size": ..., "hidden_size": ..., "has_bias": True}
_STACK = {**_CELL, "num_layers": 1, "batch_first": False, "dropout": 0.0, "bidirectional": False}
_ADDED = {"add_bias_kv": False, "add_zero_attn": False, "kdim": None, "vdim": None, "batch_first": False}
_HEADS = {"embed_dim": ..., "num_heads": ..., "dropout": 0.0, "has_bias": True, **_ADDED}


def _recurrent(name: str, gates: int) -> tuple[Layer, Layer]:
    states = (State("*_[ih]h*", over_hidden(gates)),)
    more = {"nonlinearity": "tanh"} if name == "RNN" else {}
    return Layer(name, states, {**_STACK, **more}), Layer(f"{name}Cell", states, {**_CELL, **more})


def _layers(weighted: tuple[State, ...]) -> tuple[Layer, ...]:
    return (
        *(Layer(f"Conv{n}d", weighted, _CONV) for n in (1, 2, 3)),
        Layer("Conv1dTranspose", weighted, _CONV, "ConvTranspose1d"),
        Layer("Conv2dTranspose", weighted, _TRANSPOSE, "ConvTranspose2d"),
        Layer("Conv3dTranspose", weighted, _TRANSPOSE, "ConvTranspose3d"),
        Layer("Dense", weighted, {**_CHANNELS, "has_bias": True, "activation": None}, "Linear", _FEATURES),
        *(Layer(f"BatchNorm{n}d", _NORM, _BATCH) for n in (1, 2, 3)),
        *(Layer(f"InstanceNorm{n}d", _NORM, {**_BATCH, "momentum": 0.1}) for n in (1, 2, 3)),
        Layer("SyncBatchNorm", _NORM, _BATCH),
        Layer("GroupNorm", _NORM, _GROUPS),
        Layer("LayerNorm", _NORM, _LAST, keywords={"epsilon": "epsilon"}),
        Layer("RMSNorm", _NORM),
        Layer(
            "Embedding",
            _TABLE,
            {"vocab_size": ..., "embedding_size": ..., "padding_idx": None},
            keywords=_ROWS,
        ),
        Layer("EmbeddingLookup", _TABLE),
        Layer(
            "PReLU",
            (State("w", SLOPE, role="weight", number="w"),),
            {"channel": 1, "w": 0.25},
            keywords={"num_parameters": "channel", "init": "w"},
        ),
        Layer("MultiheadAttention", _ATTENTION, _HEADS),
        *_recurrent("LSTM", 4),
        *_recurrent("GRU", 3),
        *_recurrent("RNN", 1),
        *(Layer(f"MaxPool{n}d", (), {**_POOL, "dilation": 1}) for n in (1, 2, 3)),
        *(Layer(f"AvgPool{n}d", (), {**_POOL, "count_include_pad": True}) for n in (1, 2, 3)),
        Layer("Dropout", (), {"keep_prob": 0.5, "p": None}),
        *(Layer(f"Dropout{n}d", (), {"p": 0.5}) for n in (1, 2, 3)),
        Layer("LeakyReLU", (), {"alpha": 0.2}),
        Layer("ELU", (), {"alpha": 1.0}),
        Layer("CELU", (), {"alpha": 1.0}),
        Layer("GELU", (), {"approximate": True}),
        Layer("ChannelShuffle", (), {"groups": ...}, keywords={"group": "groups"}),
        *(Layer(name, like=like) for name, like in _ACTIVATIONS.items()),
    )


_ACTIVATIONS = {
    "HShrink": "Hardshrink",
    "HSigmoid": "Hardsigmoid",
    "HSwish": "Hardswish",
    "LRN": "LocalResponseNorm",
    "SeLU": "SELU",
    "SoftShrink": "Softshrink",
}
"""Layers of which only the name differs, and how they are computed alike."""


UNIFORM_SCALE = 0.07
"""Bound of Uniform() on either side."""
_SPREAD = Term("std", "sigma", 0.01, always=True)
_NORMAL = _SPREAD, Term("mean", "mean", 0.0)
_HE = Term("a", "negative_slope", 0.0), Term("mode", "mode", "fan_in", named=True)
_GAIN = (Term("gain", "gain", 1.0),)

_DRAWINGS = (  # classes of mindspore.common.initializer
    Drawing("zeros", "Zero"),
    Drawing("ones", "One"),
    Drawing("identity", "Identity"),
    Drawing("constant", "Constant", (Term("value", "value", 0.0, always=True),)),
    Drawing("uniform", "Uniform", (Term("high", "scale", UNIFORM_SCALE, always=True),)),
    Drawing("normal", "Normal", _NORMAL),
    Drawing("trunc_normal", "TruncatedNormal", (*_NORMAL, Term("low", "a", -2.0), Term("high", "b", 2.0))),
    Drawing("he_uniform", "HeUniform", _HE, relu_gain),
    Drawing("he_normal", "HeNormal", _HE, relu_gain),
    Drawing("xavier_uniform", "XavierUniform", _GAIN),
    Drawing("xavier_normal", "XavierNormal", _GAIN),
    Drawing("orthogonal", "Orthogonal", _GAIN),
    Drawing("dirac", "Dirac", (Term("groups", "groups", 1),)),
    Drawing("sparse", "Sparse", (Term("sparsity", "sparsity", 0.0, always=True), _SPREAD)),
)


def pairs(pads: Sequence[int]) -> int | tuple[int, ...]:
    """Return all begins before all ends as one number, or as MindSpore's (top, bottom, left, right)."""
    rank = len(pads) // 2
    return same([pads[at] for axis in range(rank) for at in (axis, axis + rank)])


def padding(class_name: str, pads: Sequence[int]) -> Arguments | None:
    """Return the arguments for padding, all begins before all ends; None where the layer cannot have it.

    A transposed convolution crops. Conv2dTranspose appends zeros by its output_padding, but crops each end of
    an axis alone; Conv3dTranspose crops less at an end by its output_padding.
    """
    begins, ends = pads[: len(pads) // 2], pads[len(pads) // 2 :]
    more = [begin - end for begin, end in zip(begins, ends, strict=True)]
    if class_name.startswith("Conv") and (not any(more) or class_name != "Conv3dTranspose"):
        refused = min(pads) < 0 or (any(more) and class_name == "Conv1dTranspose")
        return None if refused else {"pad_mode": "pad", "padding": pairs(pads)}
    if not any(more):
        return {"pad_mode": "pad", "padding": same(begins)}
    if class_name != "Conv3dTranspose" or min(more) < 0:
        return None
    return {"pad_mode": "pad", "padding": pairs([*begins, *begins]), "output_padding": same(more)}


def _rounded_up(is_so: object) -> Arguments:
    """Return the arguments of a pool for ceil_mode, which it has with pad_mode="pad" alone."""
    return {"pad_mode": "pad", "ceil_mode": True} if is_so else {"ceil_mode": False}


MINDSPORE = Framework(
    _layers(_weighted(HE, over_fan_in)),
    _DRAWINGS,
    _KEYWORDS,
    {"approximate": lambda kind: kind != "none", "ceil_mode": _rounded_up, "count_include_pad": bool},
    padding,
    number=repr,
)
MINDSPORE_2_0 = Framework(_layers(_weighted(normal(0.01), ZEROS)), _DRAWINGS)
"""Distributions of MindSpore 2.0 and earlier."""


def law_of(name: str, given: Mapping[str, object]) -> Initializer | None:
    """Return what the initializer of a name draws from, given arguments by keyword; None if unknown."""
    drawing, nonlinearity = MINDSPORE.drawing(name), given.get("nonlinearity", "leaky_relu")
    if drawing is None or nonlinearity not in ("leaky_relu", "relu"):
        return None
    return drawing.read(given if nonlinearity == "leaky_relu" else {**given, "negative_slope": 0.0})


DROPPED = {
    "Dropout": ("p", 0.0),
    "DropoutExt": ("p", 0.0),
    "Dropout1d": ("prob", 0.0),
    "Dropout2d": ("keep_prob", 1.0),
    "Dropout2dExt": ("p", 0.0),
    "Dropout3d": ("keep_prob", 1.0),
}
"""Class -> the attribute in which it keeps its ratio, and the value there that drops nothing."""


def dropped_share(layer: object) -> float:
    """Return the probability with which a live Dropout drops an element."""
    for name, nothing in (("p", 0.0), ("prob", 0.0), ("keep_prob", 1.0)):
        value = getattr(layer, name, None)
        if isinstance(value, (int, float)):
            return abs(nothing - value)
    return 0.0
