"""Initial distributions of Parameters: the Initializer where it is still there, else the layer's own rule."""

from __future__ import annotations

import math
from typing import Any

from ...ir import Initializer

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
_FIXED = {
    "gamma": Initializer.of("ones"),
    "beta": Initializer.of("zeros"),
    "moving_mean": Initializer.of("zeros"),
    "moving_variance": Initializer.of("ones"),
}
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


def initial_distribution(cell: Any, attribute: str, parameter: Any) -> Initializer | None:
    """The distribution that `cell.<attribute>` was drawn from, or None when it is not known."""
    pending = getattr(parameter, "init_mode", None)
    if pending is not None:
        return _of_object(getattr(pending, "init", None))
    if not type(cell).__module__.startswith("mindspore.nn"):
        return None
    kept = vars(cell).get(_KEPT.get(attribute, ""))
    if kept is not None:
        return _of_object(kept)
    name = type(cell).__name__
    if attribute in _FIXED and name in _NORMS:
        return _FIXED[attribute]
    if name == "PReLU" and attribute == "weight":
        return Initializer.of("constant", value=0.25)
    return None if name not in _DENSE else _of_dense(cell, attribute)


def _of_dense(cell: Any, attribute: str) -> Initializer | None:
    """Since 2.1: HeUniform(sqrt 5), and a bias within 1/sqrt(fan_in).

    Dense does not keep the arguments; a weight outside the default's bounds tells that it had others.
    """
    import numpy as np

    weight = cell._params.get("weight")
    if weight is None:
        return None
    fan_in = math.prod(weight.shape[1:])
    bound = 1 / math.sqrt(fan_in) if fan_in else 0.0
    values = np.abs(cell._params[attribute].asnumpy()) if attribute in ("weight", "bias") else None
    if values is None or (
        values.size and (values.max() > bound * (1 + 1e-6) or (values.size > 8 and values.max() < bound / 2))
    ):
        return None
    return _HE if attribute == "weight" else Initializer.of("uniform", low=-bound, high=bound)


def _of_object(value: Any) -> Initializer | None:
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
