"""The layers of torch.nn."""

from __future__ import annotations

from ..ir import Initializer
from .record import (
    HE,
    ONES,
    SLOPE,
    ZEROS,
    Framework,
    Layer,
    State,
    inverse_root,
    normal,
    over_fan_in,
    over_hidden,
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
)


def _recurrent(gates: int) -> tuple[State, ...]:
    projection = State("weight_hr*", lambda own, _: inverse_root(own[1]))
    return State("*_[ih]h*", over_hidden(gates)), projection


TORCH = Framework(
    "torch",
    (
        *(Layer(f"Conv{n}d", _WEIGHTED) for n in (1, 2, 3)),
        *(Layer(f"ConvTranspose{n}d", _WEIGHTED) for n in (1, 2, 3)),
        Layer("Linear", _WEIGHTED),
        Layer("NonDynamicallyQuantizableLinear", (State("weight", HE), State("bias", ZEROS))),
        Layer("Bilinear", _FORMS),
        *(Layer(f"BatchNorm{n}d", _NORM) for n in (1, 2, 3)),
        *(Layer(f"InstanceNorm{n}d", _NORM) for n in (1, 2, 3)),
        *(Layer(name, _NORM) for name in ("SyncBatchNorm", "GroupNorm", "LayerNorm", "RMSNorm")),
        Layer("Embedding", _TABLE),
        Layer("EmbeddingBag", _TABLE),
        Layer("PReLU", (State("weight", SLOPE, "init"),)),
        Layer("MultiheadAttention", _ATTENTION),
        *(Layer(f"LSTM{kind}", _recurrent(4)) for kind in ("", "Cell")),
        *(Layer(f"GRU{kind}", _recurrent(3)) for kind in ("", "Cell")),
        *(Layer(f"RNN{kind}", _recurrent(1)) for kind in ("", "Cell")),
    ),
)
