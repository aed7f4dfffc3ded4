"""Translates the frameworks' names and shapes of parameters into torch's terms."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..frameworks import GLUON, MINDSPORE

COUNTER = "num_batches_tracked"
"""torch's count of the batches a BatchNorm has seen; no other framework keeps one."""

_TERMS = {
    "kernel": "weight",  # of Flax and Keras
    "parameters": "parameters",  # of MXNet's RNN: one flat tensor
    **{
        state.name: state.role
        for records in (MINDSPORE, GLUON)
        for layer in records.layers.values()
        for state in layer.states
        if state.role
    },
}
"""A framework's term for a parameter of a layer -> torch's."""

_FLAT = re.compile(
    r"^([^.]+?)_((?:[lr]\d+_)?[ih]2h_(?:weight|bias)|weight|bias|gamma|beta|moving_mean|moving_var|running_mean|running_var)$"
)  # a symbol's name
_GATES = re.compile(r"^(w|b)_(ih|hh)(_?l?\d*(?:_reverse)?)$")
_GLUON = re.compile(r"^(?:([lr])(\d+)_)?([ih])2h_(weight|bias)$")
"""MXNet's parameters of a recurrent layer, whose direction stands before the layer's number."""


def plain_name(name: str) -> str:
    """Return a parameter's name in torch's terms.

    Example:
        >>> plain_name("stem.bn.moving_variance"), plain_name("lstm.w_ih_l0")
        ('stem.bn.running_var', 'lstm.weight_ih_l0')
    """
    head, _, last = name.rpartition(".")
    head = re.sub(r"\.bn2d$", "", head)  # inside MindSpore's BatchNorm3d
    return f"{head}.{role_of(last)}" if head else role_of(last)


def role_of(attribute: str) -> str:
    """Return torch's name of a layer's attribute."""
    gates = _GATES.match(attribute)
    if gates:
        return f"{'weight' if gates[1] == 'w' else 'bias'}_{gates[2]}{gates[3]}"
    if gluon := _GLUON.match(attribute):
        direction, layer, side, kind = gluon.groups()
        place = "" if layer is None else f"_l{layer}" + ("_reverse" if direction == "r" else "")
        return f"{kind}_{side}h{place}"
    return _TERMS.get(attribute, attribute)


def dotted(name: str, framework: str) -> str:
    """Return a symbol's name, `bn0_moving_var`, as a path."""
    flat = _FLAT.match(name) if framework == "mxnet" else None
    return f"{flat[1]}.{flat[2]}" if flat else name


def universal_name(name: str) -> str:
    """Return a name of any framework in torch's terms; a symbol's as a path.

    Example:
        >>> universal_name("bn0_moving_var"), universal_name("stem.bn.gamma")
        ('bn0.running_var', 'stem.bn.weight')
    """
    return plain_name(dotted(name, "mxnet"))


def gluon_role(role: str) -> str:
    """Return MXNet's name of a recurrent layer's parameter; any other role unchanged.

    Example:
        >>> gluon_role("weight_hh_l0_reverse"), gluon_role("bias_ih"), gluon_role("weight")
        ('r0_h2h_weight', 'i2h_bias', 'weight')
    """
    found = re.match(r"^(weight|bias)_([ih])h(?:_l(\d+)(_reverse)?)?$", role)
    if found is None:
        return role
    place = "" if found[3] is None else f"{'r' if found[4] else 'l'}{found[3]}_"
    return f"{place}{found[2]}2h_{found[1]}"


def plain_shape(shape: Iterable[int]) -> tuple[int, ...]:
    """Return a shape without kernel axes of one element, which frameworks add: (O, I, 1, k) is (O, I, k)."""
    first, *rest = [tuple(shape)[:2], *tuple(shape)[2:]]
    return (*first, *(n for n in rest if n != 1))
