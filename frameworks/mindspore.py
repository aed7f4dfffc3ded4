"""The layers of mindspore.nn."""

from __future__ import annotations

from ..ir import Initializer
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
        Layer("PReLU", (State("w", SLOPE, "w", "weight"),)),
        Layer("MultiheadAttention", _ATTENTION),
        *(
            Layer(f"{name}{kind}", (State("*_[ih]h*", over_hidden(gates)),))
            for name, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1))
            for kind in ("", "Cell")
        ),
    )


MINDSPORE = Framework("mindspore", _layers(_weighted(HE, over_fan_in)))
MINDSPORE_2_0 = Framework("mindspore", _layers(_weighted(normal(0.01), ZEROS)))
"""Of 2.0 and earlier."""
