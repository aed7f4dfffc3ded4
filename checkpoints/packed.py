"""Recurrent layers whose parameters are one vector in a checkpoint: taken apart to be read, packed again.

cuDNN's vector, which is MXNet's, has all weights and then all biases: layer by layer, direction by direction,
of the input and then of the state. That of MindSpore's `ops.LSTM` on the CPU, of one layer, has the weights
of the input in both directions, those of the state, and one bias, the sum of the two. Gates stand everywhere
in torch's order: input, forget, cell, output in an LSTM; reset, update, new in a GRU.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import NamedTuple

from ..ir import TensorData
from .joins import Join, take_joined
from .spelling import universal_name

_ROLE = re.compile(r"^(weight|bias)_(ih|hh)_l(\d+)(_reverse)?$")


def taken_apart(joins: Sequence[Join], given: Mapping[str, TensorData]) -> dict[str, TensorData]:
    """Return a checkpoint with parameters in place of its vectors; a vector beside them stays.

    Args:
        joins: of the vectors, from each to its parameters.
        given: the checkpoint.
    """
    here = [j for j in joins if j.source.keys() <= given.keys() and not j.target.keys() & given.keys()]
    made, alone = take_joined(here, given)
    return {**alone, **made}


def packed_again(joins: Sequence[Join], given: Mapping[str, TensorData]) -> dict[str, TensorData]:
    """Return a checkpoint with vectors in place of parameters, for vectors whose parts are all there."""
    return taken_apart([join.turned() for join in joins], given)


def is_vector(name: str, shape: tuple[int, ...]) -> bool:
    """Whether a tensor may be a recurrent layer's vector, as MXNet or as MindSpore has it."""
    if len(shape) == 3:
        return shape[1:] == (1, 1) and name.endswith("weight")
    return len(shape) == 1 and name.endswith("parameters")


class Vector(NamedTuple):
    """A vector and the layer whose parameters it holds.

    Attributes:
        path: of the layer.
        roles: of its parameters in torch's terms, in the vector's order -> their names.
        absent: those of the layer that the vector does not hold: the second bias where it has their sum.
    """

    path: str
    roles: dict[str, str]
    absent: dict[str, str]


def vector_of(name: str, size: int, shapes: Mapping[str, tuple[int, ...]]) -> Vector | None:
    """Return the layer of the other side whose parameters a vector holds; None where nothing tells.

    Args:
        name: the vector's name.
        size: its number of elements.
        shapes: of the other side's tensors, by name.
    """
    layers: dict[str, dict[str, str]] = {}
    for other in shapes:
        path, _, role = universal_name(other).rpartition(".")
        layers.setdefault(path, {})[role] = other
    found: dict[tuple[object, bool], list[Vector]] = {}
    for path, roles in layers.items():
        if not all(map(_ROLE.match, roles)):
            continue
        for summed in (False, True):
            order = _order(roles, summed=summed)
            forms = tuple(shapes[roles[role]] for role in order)
            if order and sum(map(prod, forms)) == size:
                absent = {role: roles[role] for role in roles if role not in order}
                vector = Vector(path, {role: roles[role] for role in order}, absent)
                found.setdefault((forms, summed), []).append(vector)
    near = stem_of(name)
    fitting = [v for some in found.values() for v in some if v.path == near]
    fitting = fitting or [some[0] for some in found.values()]
    return fitting[0] if len(fitting) == 1 else None


def stem_of(name: str) -> str:
    """Return the layer in a vector's name: `rnn` of `rnn_parameters`, `a.lstm` of `a.lstm.weight`."""
    return re.sub(r"[._]*(parameters|weight)$", "", name)


def _order(roles: Iterable[str], *, summed: bool) -> list[str]:
    """Return the roles in a vector; `summed`: of MindSpore on the CPU. Empty for a layer without one."""
    found = [(role, m) for role in roles if (m := _ROLE.match(role))]
    if not summed:
        return [
            r for r, m in sorted(found, key=lambda f: (f[1][1] == "bias", *_place(f[1]), f[1][2] == "hh"))
        ]
    kept = [(r, m) for r, m in found if (m[1], m[2]) != ("bias", "hh")]
    if len(kept) == len(found) or any(m[3] != "0" for _, m in kept):
        return []
    return [r for r, m in sorted(kept, key=lambda f: (f[1][1] == "bias", f[1][2] == "hh", *_place(f[1])))]


def _place(match: re.Match[str]) -> tuple[int, bool]:
    return int(match[3]), match[4] is not None
