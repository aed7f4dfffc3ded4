"""Finds parameters that are constants of one net: nothing trains or updates them, and outputs prove them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ...checkpoints.spelling import COUNTER, role_of
from ...frontends.constructions import arguments_of, part_at
from ...ir import Graph, Module, Parameter

_NORMS = ("BatchNorm", "SyncBatchNorm", "GroupNorm", "InstanceNorm")
"""Prefixes of MindSpore's layer classes with a frozen gamma and beta for `affine=False`."""

_STATISTICS = ("running_mean", "running_var", COUNTER)


def constants_of_layers(graph: Graph) -> set[int]:
    """Return the keys of what MindSpore's normalisations hold for `affine=False`: a frozen gamma and beta."""
    found: set[int] = set()
    for module in graph.modules if graph.origin.framework == "mindspore" else ():
        keys = [module.parameters.get(name) for name in ("gamma", "beta")]
        if None in keys or module.namesake or not module.class_name.startswith(_NORMS):
            continue
        held = [graph.parameter(key) for key in keys if key is not None]
        if any(p.trainable or p.data.load is None for p in held):
            continue
        if _is_plain(graph, module) or all(map(_is_neutral, held)):
            found |= {p.key for p in held}
    return found


def without_effect(graph: Graph) -> set[int]:
    """Return the keys of what MindSpore's normalisations hold for `affine=False` with the values of none."""
    return {key for key in constants_of_layers(graph) if _is_neutral(graph.parameter(key))}


def _is_neutral(parameter: Parameter) -> bool:
    """Whether a gamma is all ones, a beta all zeros."""
    number = 1 if parameter.declared.rpartition(".")[2] == "gamma" else 0
    return bool((parameter.data.numpy() == number).all())


def _is_plain(graph: Graph, module: Module) -> bool:
    """Whether a layer was constructed with `affine=False`; not where nobody watched."""
    part = part_at(graph.origin.model, graph.modules.path(module.key))
    return (arguments_of(part) or {}).get("affine") is False


def constants_of(graph: Graph, *, followed: bool) -> set[int]:
    """Return the keys of the parameters that neither training nor a run changes.

    Args:
        graph: a net's.
        followed: whether the other net computes what this one does: then a value that every fresh layer has,
            all ones or all zeros, proves nothing and is left out.
    """
    found = constants_of_layers(graph)
    for parameter in graph.parameters():
        names = {parameter.role, parameter.declared.rpartition(".")[2]}
        changes = parameter.trainable or parameter.key in graph.updates
        if parameter.is_buffer:
            changes = parameter.key in graph.updates
        if changes or not {role_of(n) for n in names}.isdisjoint(_STATISTICS):
            continue
        if not followed or _is_telling(parameter):
            found.add(parameter.key)
    return found


def _is_telling(parameter: Parameter) -> bool:
    if parameter.data.load is None:
        return False
    values = parameter.data.numpy()
    return values.size > 0 and not any(bool(np.all(values == neutral)) for neutral in (0, 1))


def names_of(graph: Graph, keys: Iterable[int]) -> set[str]:
    """Return all names under which a graph holds some parameters."""
    paths = graph.parameter_paths()
    return {name for key in keys for name in paths.get(key, [graph.parameter(key).declared])}
