"""Tables of the initial distributions that torch, MindSpore and MXNet give their layers' parameters."""

from __future__ import annotations

from collections.abc import Callable
from math import prod, sqrt

from ..ir import Initializer, Parameter

Law = Callable[[tuple[int, ...]], Initializer]
"""Shape of a layer's main weight -> distribution."""

ZEROS = Initializer.of("zeros")
ONES = Initializer.of("ones")
HE = Initializer.of("he_uniform", a=sqrt(5), mode="fan_in")
"""torch's and, since 2.1, MindSpore's law of a convolution's or dense layer's weight."""

_CONVS = tuple(f"{kind}{n}d" for kind in ("Conv", "ConvTranspose") for n in (1, 2, 3))
_NORMS = (
    *(f"{kind}{n}d" for kind in ("BatchNorm", "InstanceNorm") for n in (1, 2, 3)),
    "SyncBatchNorm",
    "GroupNorm",
    "LayerNorm",
    "RMSNorm",
)
_GATES = {"LSTM": 4, "LSTMCell": 4, "GRU": 3, "GRUCell": 3, "RNN": 1, "RNNCell": 1}


def fan_in(shape: tuple[int, ...]) -> int:
    """Return the number of inputs of one output cell by torch's rule: the second dimension times the kernel.

    Example:
        >>> fan_in((64, 3, 7, 7)), fan_in((10, 512))
        (147, 512)
    """
    return prod(shape[1:])


def symmetric(bound: float) -> Initializer:
    """Return the uniform distribution from -bound to bound."""
    return Initializer.of("uniform", low=-bound, high=bound)


def bias_law(shape: tuple[int, ...]) -> Initializer:
    """Return uniform(±1/sqrt(fan_in)), the law of the bias of a layer whose weight has this shape."""
    return symmetric(1 / sqrt(fan_in(shape))) if fan_in(shape) else ZEROS


def _fixed(law: Initializer) -> Law:
    return lambda _: law


def _normal(std: float) -> Law:
    return _fixed(Initializer.of("normal", mean=0.0, std=std))


def _recurrent(gates: int) -> Law:
    """Return uniform(±1/sqrt(hidden size)); the rows of a gate-stacked tensor give the hidden size."""
    return lambda shape: symmetric(1 / sqrt(shape[0] // gates))


Rows = dict[tuple[str, str], Law]
"""(class name, parameter's attribute name; a trailing ``*`` matches any ending) -> law."""


def _torch() -> Rows:
    rows: Rows = {}
    for name in (*_CONVS, "Linear"):
        rows[name, "weight"], rows[name, "bias"] = _fixed(HE), bias_law
    rows["NonDynamicallyQuantizableLinear", "weight"] = _fixed(HE)  # out_proj of MultiheadAttention
    rows["NonDynamicallyQuantizableLinear", "bias"] = _fixed(ZEROS)
    rows["Bilinear", "weight"] = rows["Bilinear", "bias"] = lambda s: symmetric(1 / sqrt(s[1]))
    for name in _NORMS:
        rows[name, "weight"], rows[name, "bias"] = _fixed(ONES), _fixed(ZEROS)
        rows[name, "running_mean"], rows[name, "running_var"] = _fixed(ZEROS), _fixed(ONES)
        rows[name, "num_batches_tracked"] = _fixed(ZEROS)
    rows["Embedding", "weight"] = rows["EmbeddingBag", "weight"] = _normal(1.0)
    rows["PReLU", "weight"] = _fixed(Initializer.of("constant", value=0.25))
    xavier = Initializer.of("xavier_uniform", gain=1.0)
    for name in ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight"):
        rows["MultiheadAttention", name] = _fixed(xavier)
    rows["MultiheadAttention", "in_proj_bias"] = _fixed(ZEROS)
    for name, gates in _GATES.items():
        rows[name, "weight_ih*"] = rows[name, "weight_hh*"] = _recurrent(gates)
        rows[name, "bias_ih*"] = rows[name, "bias_hh*"] = _recurrent(gates)
    return rows


def _mindspore(version: str) -> Rows:
    rows: Rows = {}
    old = version == "2.0"
    transposes = tuple(f"Conv{n}dTranspose" for n in (1, 2, 3))
    for name in ("Conv1d", "Conv2d", "Conv3d", *transposes, "Dense"):
        rows[name, "weight"] = _normal(0.01) if old else _fixed(HE)
        rows[name, "bias"] = _fixed(ZEROS) if old else bias_law
    for name in _NORMS:
        rows[name, "gamma"], rows[name, "beta"] = _fixed(ONES), _fixed(ZEROS)
        rows[name, "moving_mean"], rows[name, "moving_variance"] = _fixed(ZEROS), _fixed(ONES)
    rows["Embedding", "embedding_table"] = _normal(0.01)
    rows["EmbeddingLookup", "embedding_table"] = _normal(0.01)
    rows["PReLU", "w"] = _fixed(Initializer.of("constant", value=0.25))
    for name, gates in _GATES.items():
        rows[name, "w_ih*"] = rows[name, "w_hh*"] = rows[name, "b_ih*"] = rows[name, "b_hh*"] = _recurrent(
            gates
        )
        rows[name, "weight_ih*"] = rows[name, "weight_hh*"] = _recurrent(gates)
        rows[name, "bias_ih*"] = rows[name, "bias_hh*"] = _recurrent(gates)
    return rows


def _mxnet(api: str) -> Rows:
    """Return MXNet's table, by the end of a name: uniform weights, zero biases, norms of ones and zeros."""
    bound = 0.07 if api == "gluon" else 0.01
    laws = {
        "weight": symmetric(bound),
        "bias": ZEROS,
        "gamma": ONES,
        "beta": ZEROS,
        "moving_mean": ZEROS,
        "running_mean": ZEROS,
        "moving_var": ONES,
        "running_var": ONES,
    }
    return {("*", name): _fixed(law) for name, law in laws.items()}


def rows_of(framework: str, *, mindspore: str, mxnet: str) -> Rows:
    """Return the table of a framework's default laws; empty for a framework without a known one.

    Args:
        framework: "torch", "mindspore" or "mxnet".
        mindspore: "2.1" for 2.1 and later, "2.0" for 2.0 and earlier.
        mxnet: "gluon" or "module", which have different defaults.
    """
    if framework == "torch":
        return _torch()
    if framework == "mindspore":
        return _mindspore(mindspore)
    return _mxnet(mxnet) if framework == "mxnet" else {}


def default_law(rows: Rows, class_name: str, role: str, shape: tuple[int, ...]) -> Initializer | None:
    """Return the default law of one parameter, or None where the table has none.

    Args:
        rows: a framework's table.
        class_name: class of the module that holds it.
        role: its attribute name there.
        shape: shape of the tensor that tells the law's arguments: the weight's for a bias.
    """
    for (owner, name), law in rows.items():
        matches = (
            role.startswith(name[:-1])
            if name.endswith("*")
            else role == name or (owner == "*" and role.endswith(f"_{name}"))
        )
        if owner in ("*", class_name) and matches:
            return law(shape)
    return None


def shape_that_tells(parameter: Parameter, siblings: dict[str, Parameter], role: str) -> tuple[int, ...]:
    """Return the shape that determines a parameter's law: for a bias that of its layer's weight."""
    weight = siblings.get("weight")
    return weight.data.shape if role == "bias" and weight is not None else parameter.data.shape
