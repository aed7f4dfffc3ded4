"""How frameworks spell one thing: names and shapes of parameters in torch's terms."""

from __future__ import annotations

import re
from collections.abc import Iterable

COUNTER = "num_batches_tracked"
"""torch's count of the batches a BatchNorm has seen; no other framework keeps one."""

_TERMS = {
    "gamma": "weight",
    "beta": "bias",
    "moving_mean": "running_mean",
    "moving_variance": "running_var",
    "moving_var": "running_var",
    "embedding_table": "weight",
    "w": "weight",
    "kernel": "weight",  # of Flax and Keras
    "parameters": "parameters",  # of MXNet's RNN: one flat tensor
}
"""A framework's term for a parameter of a layer -> torch's."""

_GATES = re.compile(r"^(w|b)_(ih|hh)(_?l?\d*(?:_reverse)?)$")


def plain_name(name: str) -> str:
    """A parameter's name in torch's terms.

    Example:
        >>> plain_name("stem.bn.moving_variance"), plain_name("lstm.w_ih_l0")
        ('stem.bn.running_var', 'lstm.weight_ih_l0')
    """
    head, _, last = name.rpartition(".")
    head = re.sub(r"\.bn2d$", "", head)  # inside MindSpore's BatchNorm3d
    return f"{head}.{role_of(last)}" if head else role_of(last)


def role_of(attribute: str) -> str:
    """What a layer's attribute is called in torch."""
    gates = _GATES.match(attribute)
    if gates:
        return f"{'weight' if gates[1] == 'w' else 'bias'}_{gates[2]}{gates[3]}"
    return _TERMS.get(attribute, attribute)


def plain_shape(shape: Iterable[int]) -> tuple[int, ...]:
    """A shape without kernel axes of one element, which frameworks add: (O, I, 1, k) is (O, I, k)."""
    first, *rest = [tuple(shape)[:2], *tuple(shape)[2:]]
    return (*first, *(n for n in rest if n != 1))
