"""The layers of mindspore.nn."""

from __future__ import annotations

from ..ir import Initializer
from .drawing import Drawing, Term, Written, spelled
from .record import HE, ONES, SLOPE, ZEROS, Framework, Law, Layer, State, normal, over_fan_in, over_hidden


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
"""Of the layer's own; its output projection is a Dense, whose bias is drawn as any Dense's."""


def _layers(weighted: tuple[State, ...]) -> tuple[Layer, ...]:
    return (
        *(Layer(f"Conv{n}d", weighted) for n in (1, 2, 3)),
        *(Layer(f"Conv{n}dTranspose", weighted) for n in (1, 2, 3)),
        Layer("Dense", weighted),
        *(Layer(f"BatchNorm{n}d", _NORM) for n in (1, 2, 3)),
        *(Layer(f"InstanceNorm{n}d", _NORM) for n in (1, 2, 3)),
        *(Layer(name, _NORM) for name in ("SyncBatchNorm", "GroupNorm", "LayerNorm", "RMSNorm")),
        Layer("Embedding", _TABLE),
        Layer("EmbeddingLookup", _TABLE),
        Layer("PReLU", (State("w", SLOPE, role="weight", number="w"),)),
        Layer("MultiheadAttention", _ATTENTION),
        *(
            Layer(f"{name}{kind}", (State("*_[ih]h*", over_hidden(gates)),))
            for name, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1))
            for kind in ("", "Cell")
        ),
    )


_SPREAD = Term("std", "sigma", 0.01, always=True)
_NORMAL = _SPREAD, Term("mean", "mean", 0.0)
_HE = Term("a", "negative_slope", 0.0), Term("mode", "mode", "fan_in", named=True)
_GAIN = (Term("gain", "gain", 1.0),)


def _relu(law: Initializer) -> Written:
    """Return what HeUniform and HeNormal are given too: with a slope of 0, leaky_relu's gain is relu's."""
    return () if law.number("a") else (("nonlinearity", "nonlinearity", "relu"),)


_DRAWINGS = (  # classes of mindspore.common.initializer
    Drawing("zeros", "Zero"),
    Drawing("ones", "One"),
    Drawing("identity", "Identity"),
    Drawing("constant", "Constant", (Term("value", "value", 0.0, always=True),)),
    Drawing("uniform", "Uniform", (Term("high", "scale", 0.07, always=True),)),
    Drawing("normal", "Normal", _NORMAL),
    Drawing("trunc_normal", "TruncatedNormal", (*_NORMAL, Term("low", "a", -2.0), Term("high", "b", 2.0))),
    Drawing("he_uniform", "HeUniform", _HE, _relu),
    Drawing("he_normal", "HeNormal", _HE, _relu),
    Drawing("xavier_uniform", "XavierUniform", _GAIN),
    Drawing("xavier_normal", "XavierNormal", _GAIN),
    Drawing("orthogonal", "Orthogonal", _GAIN),
    Drawing("dirac", "Dirac", (Term("groups", "groups", 1),)),
    Drawing("sparse", "Sparse", (Term("sparsity", "sparsity", 0.0, always=True), _SPREAD)),
)

MINDSPORE = Framework(_layers(_weighted(HE, over_fan_in)), _DRAWINGS)
MINDSPORE_2_0 = Framework(_layers(_weighted(normal(0.01), ZEROS)), _DRAWINGS)
"""Of 2.0 and earlier."""


def initializer_source(law: Initializer) -> str:
    """Return a law as an initializer argument; empty where MindSpore has no such initializer."""
    found = MINDSPORE.drawn(law)
    if law.law in ("zeros", "ones"):
        return f'"{law.law}"'
    return "" if found is None else spelled(*found, repr)
