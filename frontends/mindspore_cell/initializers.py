"""Initial distributions of Parameters: what was seen in the Cell's construction, else what its layer states.

What a layer states is held to the values: `set_data` leaves no other trace.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from ...ir import Graph, Initializer, Parameter
from ..infer_initializers import SAMPLE, UNKNOWN, Held, drawn, infer_laws
from .construction import laws_of
from .operators.attention import is_attention
from .operators.recurrent import recurrent_kind
from .tree import CellTree

_HE = Initializer.of("he_uniform", a=math.sqrt(5), mode="fan_in")
_DENSE = ("Dense", "Conv1d", "Conv2d", "Conv3d", "Conv1dTranspose", "Conv2dTranspose", "Conv3dTranspose")
_NORMS = (
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "LayerNorm",
    "GroupNorm",
    "InstanceNorm1d",
    "InstanceNorm2d",
)
FIXED = {
    "gamma": Initializer.of("ones"),
    "beta": Initializer.of("zeros"),
    "moving_mean": Initializer.of("zeros"),
    "moving_variance": Initializer.of("ones"),
}
_ATTENTION = {
    **dict.fromkeys(
        ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight"),
        Initializer.of("xavier_uniform", gain=1.0),
    ),
    "in_proj_bias": Initializer.of("zeros"),
    **dict.fromkeys(("bias_k", "bias_v"), Initializer.of("xavier_normal", gain=1.0)),
}
"""What nn.MultiheadAttention draws its own parameters from."""
_NAMED = {
    "zeros": Initializer.of("zeros"),
    "zero": Initializer.of("zeros"),
    "ones": Initializer.of("ones"),
    "one": Initializer.of("ones"),
    "normal": Initializer.of("normal", mean=0.0, std=0.01),
    "uniform": Initializer.of("uniform", low=-0.07, high=0.07),
    "xavier_uniform": Initializer.of("xavier_uniform", gain=1.0),
    "he_uniform": Initializer.of("he_uniform", a=0.0, mode="fan_in"),
    "he_normal": Initializer.of("he_normal", a=0.0, mode="fan_in"),
    "trunc_normal": Initializer.of("trunc_normal", mean=0.0, std=0.01, low=-2.0, high=2.0),
    "truncatednormal": Initializer.of("trunc_normal", mean=0.0, std=0.01, low=-2.0, high=2.0),
}
_KEPT = {
    "weight": "weight_init",
    "bias": "bias_init",
    "gamma": "gamma_init",
    "beta": "beta_init",
    "moving_mean": "moving_mean_init",
    "moving_variance": "moving_var_init",
    "embedding_table": "init_tensor",
}
"""Attribute of a Parameter -> attribute under which its layer keeps what it was initialised with."""


def state_laws(graph: Graph, tree: CellTree, root: Any) -> None:
    """Set the initial distribution of every Parameter of a Cell's tree; None where it is not known.

    Args:
        graph: the graph that the tree was walked into.
        tree: what the walk found.
        root: the Cell.
    """
    seen = laws_of(root)
    held: list[tuple[Parameter, Held]] = []
    for tensor in tree.tensors:
        node = graph.parameter(tree.parameters[id(tensor)])
        if id(tensor) in seen:
            node.initializer = law_of_object(seen[id(tensor)])
            if node.initializer is None:  # a law that the IR has no word for
                node.initializer = UNKNOWN
            continue
        cell, attribute = tree.holders[id(tensor)]
        law = _stated(cell, attribute, tensor)
        kind = (type(cell).__name__, attribute, len(node.data.shape))
        held.append((node, Held(node.data.shape, partial(_values, node), law, kind)))
    for (node, _), law in zip(held, infer_laws([each for _, each in held]), strict=True):
        node.initializer = law


def _values(parameter: Parameter) -> np.ndarray | None:
    """Its first values; None where it has none, or they are no floats."""
    if not parameter.data.dtype.startswith(("float", "bfloat")):
        return None
    array = parameter.data.numpy()
    if array.ndim == 2:
        array = drawn(array[: -(-SAMPLE // max(array.shape[1], 1))])
    return array.reshape(-1)[:SAMPLE]


def _stated(cell: Any, attribute: str, parameter: Any) -> Initializer | None:
    """The distribution that a layer says `cell.<attribute>` was drawn from, or None where it says none."""
    pending = getattr(parameter, "init_mode", None)
    if pending is not None:
        return law_of_object(getattr(pending, "init", None))
    if not type(cell).__module__.startswith("mindspore.nn"):
        return None
    kept = vars(cell).get(_KEPT.get(attribute, ""))
    if kept is not None and (found := law_of_object(kept)) is not None:
        return found
    name = type(cell).__name__
    if name.startswith("Embedding") and attribute == "embedding_table":
        return _NAMED["normal"]
    if attribute in FIXED and name in _NORMS:
        return FIXED[attribute]
    if name == "PReLU" and attribute == "weight":
        return Initializer.of("constant", value=0.25)
    if is_attention(cell) and attribute in _ATTENTION:
        return _ATTENTION[attribute]
    if recurrent_kind(cell):
        hidden = getattr(cell, "hidden_size", 0)
        return _uniform(hidden) if isinstance(hidden, int) else None
    if name not in _DENSE:
        return None
    weight = cell._params.get("weight")  # since 2.1; Dense does not keep the arguments
    fan_in = 0 if weight is None else math.prod(weight.shape[1:])
    return _HE if attribute == "weight" else _uniform(fan_in) if attribute == "bias" else None


def _uniform(fan: int) -> Initializer | None:
    """Uniform within 1/sqrt(fan)."""
    bound = 1 / math.sqrt(fan) if fan > 0 else 0.0
    return Initializer.of("uniform", low=-bound, high=bound) if bound else None


def law_of_object(value: Any) -> Initializer | None:
    """An Initializer object, a number, or the name of one."""
    if isinstance(value, str):
        return _NAMED.get(value.lower())
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, (int, float)):
        return Initializer.of("constant", value=float(value))
    get = vars(value).get if hasattr(value, "__dict__") else None
    name = type(value).__name__
    if get is None or not type(value).__module__.startswith("mindspore"):
        return None
    if name in ("Zero", "One"):
        return Initializer.of("zeros" if name == "Zero" else "ones")
    if name == "Constant":
        constant = get("value")
        return (
            Initializer.of("constant", value=float(constant)) if isinstance(constant, (int, float)) else None
        )
    if name == "Uniform":
        return Initializer.of("uniform", low=-float(get("scale", 0.07)), high=float(get("scale", 0.07)))
    if name == "Normal":
        return Initializer.of("normal", mean=float(get("mean", 0.0)), std=float(get("sigma", 0.01)))
    if name == "TruncatedNormal":
        return Initializer.of(
            "trunc_normal",
            mean=float(get("mean", 0.0)),
            std=float(get("sigma", 0.01)),
            low=float(get("a", -2.0)),
            high=float(get("b", 2.0)),
        )
    if name in ("HeUniform", "HeNormal") and get("nonlinearity", "leaky_relu") in ("leaky_relu", "relu"):
        slope = float(get("negative_slope", 0)) if get("nonlinearity", "leaky_relu") == "leaky_relu" else 0.0
        return Initializer.of(
            "he_uniform" if name == "HeUniform" else "he_normal", a=slope, mode=str(get("mode", "fan_in"))
        )
    if name in ("XavierUniform", "XavierNormal"):
        return Initializer.of(
            "xavier_uniform" if name == "XavierUniform" else "xavier_normal", gain=float(get("gain", 1))
        )
    return None
