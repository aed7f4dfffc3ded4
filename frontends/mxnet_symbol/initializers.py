"""Initial distributions: MXNet's ``__init__`` attributes, and its defaults by what a parameter is for."""

from __future__ import annotations

import json
from functools import lru_cache
from math import prod, sqrt

from ...frameworks.mxnet import GLUON, GLUON_SCALE, MODULE
from ...ir import Initializer


def default_initializer(role: str, *, gluon: bool) -> Initializer | None:
    """What MXNet gives a parameter that states nothing.

    None where that depends on how it is trained: Gluon and Module start weights from other laws.
    """
    law = GLUON.default_law("", role, ())
    return law if gluon or law == MODULE.default_law("", role, ()) else None


@lru_cache(maxsize=1024)
def stated_initializer(text: str, shape: tuple[int, ...]) -> Initializer | None:
    """The distribution of an ``__init__`` attribute: ``zeros``, or ``["xavier", {"magnitude": 3}]``.

    None for one we do not know, such as Load and Mixed, which choose by the names of other parameters.
    """
    try:
        value = json.loads(text)
    except ValueError:
        value = text
    name, arguments = value if isinstance(value, list) and len(value) == 2 else (value, {})
    if not isinstance(name, str) or not isinstance(arguments, dict):
        return None

    def number(key: str, default: float) -> float:
        given = arguments.get(key, default)
        return float(given) if isinstance(given, (int, float)) else default

    name = name.lower()
    if name in ("zeros", "zero", "ones", "one"):
        return Initializer.of("zeros" if name.startswith("zero") else "ones")
    if name == "constant":
        return Initializer.of("constant", value=number("value", 0.0))
    if name == "uniform":
        scale = number("scale", GLUON_SCALE)
        return Initializer.of("uniform", low=-scale, high=scale)
    if name == "normal":
        return Initializer.of("normal", mean=0.0, std=number("sigma", 0.01))
    if name == "orthogonal":
        return Initializer.of("orthogonal", gain=number("scale", 1.414))
    if name == "bilinear":
        return Initializer.of("bilinear")
    if name == "lstmbias":
        return Initializer.of("lstm_bias", forget_bias=number("forget_bias", 1.0))
    if name == "xavier":
        return _xavier(
            str(arguments.get("rnd_type", "uniform")),
            str(arguments.get("factor_type", "avg")),
            number("magnitude", 3.0),
            shape,
        )
    if name == "msraprelu":
        return _xavier(
            "gaussian",
            str(arguments.get("factor_type", "avg")),
            2.0 / (1 + number("slope", 0.25) ** 2),
            shape,
        )
    return None


def _xavier(law: str, factor: str, magnitude: float, shape: tuple[int, ...]) -> Initializer | None:
    """MXNet's Xavier: a uniform bound or a deviation of sqrt(magnitude / fan).

    By its usual name where that has the same: Glorot's gain for the average of the fans, He's slope for one
    of them as far as a slope makes its gain; else with the literal bound for the shape.
    """
    if len(shape) < 2 or law not in ("uniform", "gaussian") or magnitude < 0:
        return None
    kind = "uniform" if law == "uniform" else "normal"
    squared = magnitude / 3 if law == "uniform" else magnitude  # of the gain
    if factor == "avg":
        return Initializer.of(f"xavier_{kind}", gain=sqrt(squared))
    if factor in ("in", "out") and 0 < squared <= 2:
        return Initializer.of(f"he_{kind}", a=sqrt(2 / squared - 1), mode=f"fan_{factor}")
    receptive = prod(shape[2:])
    fan_in, fan_out = shape[1] * receptive, shape[0] * receptive
    fan = {"avg": (fan_in + fan_out) / 2, "in": fan_in, "out": fan_out}.get(factor)
    if not fan:
        return None
    scale = sqrt(magnitude / fan)
    if law == "gaussian":
        return Initializer.of("normal", mean=0.0, std=scale)
    return Initializer.of("uniform", low=-scale, high=scale)
