"""The layers of MXNet, whose default distributions go by the end of a parameter's name."""

from __future__ import annotations

from math import prod, sqrt

from ..ir import Initializer
from .drawing import Drawing, Term, Written
from .record import ONES, ZEROS, Framework, Layer, Shape, State, normal, symmetric

_NORM = (
    State("gamma", ONES, role="weight"),
    State("beta", ZEROS, role="bias"),
    State("moving_mean", ZEROS, role="running_mean"),
    State("moving_var", ONES, role="running_var"),
)


def _layers(bound: float) -> tuple[Layer, ...]:
    others = (State("*weight", symmetric(bound)), State("*bias", ZEROS), State("*_avg", ZEROS))
    ends = tuple(State(f"*{state.name}", state.law) for state in _NORM)
    running = State("*running_mean", ZEROS), State("*running_var", ONES)
    return Layer("BatchNorm", _NORM), Layer("*", (*others, *ends, *running))


def _xavier(law: Initializer) -> Written:
    """Return the kind, the factor and the magnitude of Xavier for a law of He's or Glorot's."""
    kind, times = ("uniform", 3) if law.law.endswith("uniform") else ("gaussian", 1)
    factor, squared = "avg", law.number("gain", 1.0) ** 2
    if law.law.startswith("he_"):
        factor, squared = str(law.argument("mode", "fan_in"))[4:], 2 / (1 + law.number("a") ** 2)
    magnitude = float(f"{times * squared:.4g}")
    return ("", "rnd_type", kind), ("", "factor_type", factor), ("", "magnitude", magnitude)


_DRAWINGS = (  # classes of mx.init
    *(
        Drawing(f"{name}_{kind}", "Xavier", more=_xavier)
        for name in ("he", "xavier")
        for kind in ("uniform", "normal")
    ),
    Drawing("zeros", "Zero"),
    Drawing("ones", "One"),
    Drawing("constant", "Constant", (Term("value", "value", 0.0, always=True),)),
    Drawing("uniform", "Uniform", (Term("high", "scale", 0.07, always=True),)),
    Drawing("normal", "Normal", (Term("std", "sigma", 0.01, always=True), Term("mean", "", 0.0))),
    Drawing("orthogonal", "Orthogonal", (Term("gain", "scale", 1.414),)),
    Drawing("bilinear", "Bilinear"),
    Drawing("lstm_bias", "LSTMBias", (Term("forget_bias", "forget_bias", 1.0),)),
)

GLUON = Framework(_layers(0.07), _DRAWINGS, prefix="mx.init.")
MODULE = Framework(_layers(0.01), _DRAWINGS)
"""Default distribution of `Module.init_params`."""


def law_of_xavier(kind: str, factor: str, magnitude: float, shape: Shape) -> Initializer | None:
    """Return MXNet's Xavier: a uniform bound or a deviation of sqrt(magnitude / fan).

    By its usual name where that has the same: Glorot's gain for the average of the fans, He's slope for one
    of them as far as a slope makes its gain; else with the literal bound for the shape.
    """
    if len(shape) < 2 or kind not in ("uniform", "gaussian") or magnitude < 0:
        return None
    ending = "uniform" if kind == "uniform" else "normal"
    squared = magnitude / 3 if kind == "uniform" else magnitude  # of the gain
    if factor == "avg":
        return Initializer.of(f"xavier_{ending}", gain=sqrt(squared))
    if factor in ("in", "out") and 0 < squared <= 2:
        return Initializer.of(f"he_{ending}", a=sqrt(2 / squared - 1), mode=f"fan_{factor}")
    receptive = prod(shape[2:])
    fan = {"in": shape[1] * receptive, "out": shape[0] * receptive}.get(factor)
    if not fan:
        return None
    scale = sqrt(magnitude / fan)
    return normal(scale) if kind == "gaussian" else symmetric(scale)
