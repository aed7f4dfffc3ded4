"""The layers of torch.nn."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir import CUMULATIVE, Initializer
from .drawing import Drawing, Term, relu_gain
from .record import (
    HE,
    ONES,
    SLOPE,
    ZEROS,
    Arguments,
    Framework,
    Layer,
    State,
    inverse_root,
    normal,
    over_fan_in,
    over_hidden,
    same,
)

_WEIGHTED = (State("weight", HE), State("bias", over_fan_in))
_FORMS = (
    State("weight", lambda _, weight: inverse_root(weight[1])),
    State("bias", lambda _, weight: inverse_root(weight[1])),
)
_NORM = (
    State("weight", ONES),
    State("bias", ZEROS),
    State("running_mean", ZEROS),
    State("running_var", ONES),
    State("num_batches_tracked", ZEROS),
)
_TABLE = (State("weight", normal(1.0)),)
"""Standard normal, but for the row of padding, which is zero in every framework's layer."""
_ATTENTION = (
    State("in_proj_bias", ZEROS),
    State("*_proj_weight", Initializer.of("xavier_uniform", gain=1.0)),
    State("bias_[kv]", Initializer.of("xavier_normal", gain=1.0)),
    State("out_proj.weight", HE),
    State("out_proj.bias", ZEROS),
)


_BOUNDS = Term("low", "a", 0.0, always=True), Term("high", "b", 1.0, always=True)
_NORMAL = Term("mean", "mean", 0.0, named=True), Term("std", "std", 1.0, always=True, named=True)
_CUT = Term("low", "a", -2.0, named=True), Term("high", "b", 2.0, named=True)
_HE = Term("a", "a", 0.0, named=True), Term("mode", "mode", "fan_in", named=True)
_GAIN = (Term("gain", "gain", 1.0, named=True),)
_SPARSE = Term("sparsity", "sparsity", 0.0, always=True), Term("std", "std", 0.01, named=True)

_DRAWINGS = (  # functions of torch.nn.init
    Drawing("zeros", "zeros_"),
    Drawing("ones", "ones_"),
    Drawing("identity", "eye_"),
    Drawing("constant", "constant_", (Term("value", "val", 0.0, always=True),)),
    Drawing("uniform", "uniform_", _BOUNDS),
    Drawing("normal", "normal_", _NORMAL),
    Drawing("trunc_normal", "trunc_normal_", (*_NORMAL, *_CUT)),
    Drawing("he_uniform", "kaiming_uniform_", _HE, relu_gain),
    Drawing("he_normal", "kaiming_normal_", _HE, relu_gain),
    Drawing("xavier_uniform", "xavier_uniform_", _GAIN),
    Drawing("xavier_normal", "xavier_normal_", _GAIN),
    Drawing("orthogonal", "orthogonal_", _GAIN),
    Drawing("dirac", "dirac_", (Term("groups", "groups", 1, named=True),)),
    Drawing("sparse", "sparse_", _SPARSE),
)

_KEYWORDS = {
    "kernel_shape": "kernel_size",
    "strides": "stride",
    "dilations": "dilation",
    "group": "groups",
    "epsilon": "eps",
    "axis": "dim",
}


def new_share(kept: float) -> float | None:
    """Return a normalisation's momentum as torch counts it; None where statistics average all batches.

    Example:
        >>> new_share(0.75)
        0.25
    """
    return None if kept == CUMULATIVE else 1 - kept


_SIZES = {"in_channels": ..., "out_channels": ..., "kernel_size": ...}
_CONV = {**_SIZES, "stride": 1, "padding": 0, "dilation": 1, "groups": 1, "bias": True}
_TRANSPOSE = {**_CONV, "output_padding": 0}
_BATCH = {"num_features": ..., "eps": 1e-5, "momentum": 0.1, "affine": True, "track_running_stats": True}
_INSTANCE = {**_BATCH, "affine": False, "track_running_stats": False}
_GROUPS = {"num_groups": ..., "num_channels": ..., "eps": 1e-5, "affine": True}
_LAST = {"normalized_shape": ..., "eps": 1e-5, "elementwise_affine": True}
_ELEMENTWISE = {"affine": "elementwise_affine"}
_CELL = {"input_size": ..., "hidden_size": ..., "bias": True}
_MORE = {"num_layers": 1, "batch_first": False, "dropout": 0.0, "bidirectional": False, "proj_size": 0}
_ADDED = {"add_bias_kv": False, "add_zero_attn": False, "kdim": None, "vdim": None, "batch_first": False}
_HEADS = {"embed_dim": ..., "num_heads": ..., "dropout": 0.0, "bias": True, **_ADDED}
_POOL = {"kernel_size": ..., "stride": None, "padding": 0, "ceil_mode": False}


def _recurrent(name: str, gates: int) -> tuple[Layer, Layer]:
    projection = State("weight_hr*", lambda own, _: inverse_root(own[1]))
    states = State("*_[ih]h*", over_hidden(gates)), projection
    more = {"nonlinearity": "tanh"} if name == "RNN" else {}
    return Layer(name, states, {**_CELL, **_MORE, **more}), Layer(f"{name}Cell", states, {**_CELL, **more})


def padding(class_name: str, pads: Sequence[int]) -> Arguments | None:
    """Return the arguments for padding, all begins before all ends; None where the layer cannot have it.

    A transposed convolution crops; what it crops less at an end is its output_padding.
    """
    begins, ends = pads[: len(pads) // 2], pads[len(pads) // 2 :]
    more = [begin - end for begin, end in zip(begins, ends, strict=True)]
    if not any(more):
        return {"padding": same(begins)}
    if "Transpose" not in class_name or min(more) < 0:
        return None
    return {"padding": same(begins), "output_padding": same(more)}


TORCH = Framework(
    (
        *(Layer(f"Conv{n}d", _WEIGHTED, _CONV) for n in (1, 2, 3)),
        *(Layer(f"ConvTranspose{n}d", _WEIGHTED, _TRANSPOSE) for n in (1, 2, 3)),
        Layer("Linear", _WEIGHTED, {"in_features": ..., "out_features": ..., "bias": True}),
        Layer("NonDynamicallyQuantizableLinear", (State("weight", HE), State("bias", ZEROS)), {"bias": True}),
        Layer("Bilinear", _FORMS, {"bias": True}),
        *(Layer(f"BatchNorm{n}d", _NORM, _BATCH) for n in (1, 2, 3)),
        *(Layer(f"InstanceNorm{n}d", _NORM, _INSTANCE) for n in (1, 2, 3)),
        Layer("SyncBatchNorm", _NORM, _BATCH),
        Layer("GroupNorm", _NORM, _GROUPS),
        Layer("LayerNorm", _NORM, {**_LAST, "bias": True}, keywords=_ELEMENTWISE),
        Layer("RMSNorm", _NORM, {**_LAST, "eps": None}, keywords=_ELEMENTWISE),
        Layer("Embedding", _TABLE, {"num_embeddings": ..., "embedding_dim": ..., "padding_idx": None}),
        Layer("EmbeddingBag", _TABLE),
        Layer("PReLU", (State("weight", SLOPE, number="init"),), {"num_parameters": 1, "init": 0.25}),
        Layer("MultiheadAttention", _ATTENTION, _HEADS),
        *_recurrent("LSTM", 4),
        *_recurrent("GRU", 3),
        *_recurrent("RNN", 1),
        *(Layer(f"MaxPool{n}d", (), {**_POOL, "dilation": 1}) for n in (1, 2, 3)),
        *(Layer(f"AvgPool{n}d", (), {**_POOL, "count_include_pad": True}) for n in (1, 2, 3)),
        *(Layer(f"Dropout{kind}", (), {"p": 0.5}) for kind in ("", "1d", "2d", "3d")),
        Layer("LeakyReLU", (), {"negative_slope": 0.01}, keywords={"alpha": "negative_slope"}),
        Layer("ELU", (), {"alpha": 1.0}),
        Layer("CELU", (), {"alpha": 1.0}),
        Layer("GELU", (), {"approximate": "none"}),
    ),
    _DRAWINGS,
    _KEYWORDS,
    {"momentum": new_share, "ceil_mode": bool, "count_include_pad": bool},
    padding,
    "nn.init.",
)
