"""The layers of MXNet, whose default distributions go by the end of a parameter's name."""

from __future__ import annotations

from .record import ONES, ZEROS, Framework, Layer, State, symmetric


def _layers(bound: float) -> tuple[Layer, ...]:
    states = (
        State("*weight", symmetric(bound)),
        State("*bias", ZEROS),
        State("*gamma", ONES, role="weight"),
        State("*beta", ZEROS, role="bias"),
        State("*_mean", ZEROS),
        State("*_avg", ZEROS),
        State("*_var", ONES),
    )
    return (Layer("*", states),)


GLUON_SCALE = 0.07
GLUON = Framework("mxnet", _layers(GLUON_SCALE))
MODULE = Framework("mxnet", _layers(0.01))
"""What `Module.init_params` draws from by default."""
