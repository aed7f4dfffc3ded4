"""The layers of torch.nn."""

from __future__ import annotations

from ..ir import Initializer
from .drawing import Drawing, Term, spelled
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


_BOUNDS = Term("low", "a", 0.0, always=True), Term("high", "b", 1.0, always=True)
_NORMAL = Term("mean", "mean", 0.0, always=True), Term("std", "std", 1.0, always=True)
_CUT = Term("low", "a", -2.0, always=True), Term("high", "b", 2.0, always=True)
_KAIMING = Term("a", "a", 0.0, always=True, named=True), Term("mode", "mode", "fan_in", named=True)
_GAIN = (Term("gain", "gain", 1.0, named=True),)

_DRAWINGS = (  # functions of torch.nn.init
    Drawing("zeros", "zeros_"),
    Drawing("ones", "ones_"),
    Drawing("identity", "eye_"),
    Drawing("constant", "constant_", (Term("value", "val", 0.0, always=True),)),
    Drawing("uniform", "uniform_", _BOUNDS),
    Drawing("normal", "normal_", _NORMAL),
    Drawing("trunc_normal", "trunc_normal_", (*_NORMAL, *_CUT)),
    Drawing("he_uniform", "kaiming_uniform_", _KAIMING),
    Drawing("he_normal", "kaiming_normal_", _KAIMING),
    Drawing("xavier_uniform", "xavier_uniform_", _GAIN),
    Drawing("xavier_normal", "xavier_normal_", _GAIN),
    Drawing("orthogonal", "orthogonal_", _GAIN),
    Drawing("dirac", "dirac_", (Term("groups", "groups", 1),)),
    Drawing("sparse", "sparse_", (Term("sparsity", "sparsity", 0.0, always=True), Term("std", "std", 0.01))),
)

TORCH = Framework(
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
        Layer("PReLU", (State("weight", SLOPE, number="init"),)),
        Layer("MultiheadAttention", _ATTENTION),
        *(Layer(f"LSTM{kind}", _recurrent(4)) for kind in ("", "Cell")),
        *(Layer(f"GRU{kind}", _recurrent(3)) for kind in ("", "Cell")),
        *(Layer(f"RNN{kind}", _recurrent(1)) for kind in ("", "Cell")),
    ),
    _DRAWINGS,
)


def draw_statement(law: Initializer, tensor: str) -> str:
    """Return the statement that draws a tensor from a law; empty where there is none."""
    found = TORCH.drawn(law)
    return "" if found is None else spelled(f"nn.init.{found[0]}", found[1], "{:g}".format, tensor)
