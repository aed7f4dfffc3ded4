"""Finds the layers of a target that are constructed otherwise than the source's, and runs each one alone."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from ...frontends.class_source import is_library_class
from ...frontends.constructions import arguments_of, part_at
from ...frontends.layer_arguments import ELSEWHERE, SIZES, arguments_like, class_like, is_same_argument
from ...ir import Array, Graph, ModelError
from ..runners.runs import Replacing, Run, Runner
from ..two_nets.attributes import AttributeRow
from ..two_nets.remedies import place_of
from .changes import literal
from .hosts import Host, host_of
from .rewriting import constructed_as
from .values import are_close

_TOLERANCE = 1e-4
_MOST_NUMBERS = 16
"""Elements of a tensor that a remedy writes out."""


@dataclass(slots=True)
class LayerCauses:
    """The layers that are constructed otherwise.

    Attributes:
        rows: a setting each.
        layers: path in the target -> the layer as it is to be constructed, with the target's weights.
    """

    rows: list[AttributeRow] = field(default_factory=list)
    layers: dict[str, Any] = field(default_factory=dict)


def causes_in_layers(
    graphs: tuple[Graph, Graph],
    runners: tuple[Runner, Runner],
    modules: Mapping[str, str],
    inputs: Mapping[str, Array] | None,
    unpaired: Sequence[str],
) -> LayerCauses:
    """Return the layers that give what the source's give once their constructors get its arguments.

    Args:
        graphs: the source's and the target's.
        runners: that run them on one set of weights.
        modules: path of a module in the source -> in the target.
        inputs: inputs on which the outputs differ; None where they agree, so that nothing is run.
        unpaired: names of parameters without a counterpart of their shape: of their layers, nothing is run.
    """
    found = LayerCauses()
    host = host_of(graphs[1].origin.framework)
    if host is None or host_of(graphs[0].origin.framework) is None:
        return found
    without = {name.rpartition(".")[0] for name in unpaired}
    try:
        runs = None if inputs is None else (runners[0].run(inputs), runners[1].run(inputs))
    except ModelError:
        runs = None
    for path, other in modules.items():
        unlike = bool(without & {path, other})
        wanted = _wanted(graphs, path, other, host, runs, unlike=unlike)
        if unlike:
            found.rows += [_row(graphs, path, other, w, host) for w in wanted if not w.class_name]
            continue
        for each in wanted:
            if runs is None:
                break
            made = _made(each, part_at(graphs[1].origin.model, other), host)
            if made is not None and _gives_the_same(made, f"{path}#1", runs, runners[1]):
                found.rows.append(_row(graphs, path, other, each, host))
                found.layers[other] = made
                break
    return found


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The wanted constructor of a layer.

    Attributes:
        arguments: those that differ, or all of another class.
        class_name: another class; empty for its own.
        now: the layer's own values of the arguments that differ.
    """

    arguments: dict[str, Any]
    class_name: str
    now: dict[str, Any]


def _wanted(
    graphs: tuple[Graph, Graph],
    path: str,
    other: str,
    host: Host,
    runs: tuple[Run, Run] | None,
    *,
    unlike: bool,
) -> list[_Wanted]:
    """Ways to construct a target's layer; none where it is as the source's, or nobody knows.

    Where the shapes of its parameters are unlike the source's, its sizes are compared in any case.
    """
    parts = [part_at(graph.origin.model, p) for graph, p in zip(graphs, (path, other), strict=True)]
    if not path or not other or any(p is None or not is_library_class(type(p)) for p in parts):
        return []
    mine, theirs = (arguments_of(part) for part in parts)
    names = [type(part).__name__ for part in parts]
    elsewhere = any(name.startswith(ELSEWHERE) for name in names)
    if mine is None or theirs is None or (elsewhere and not unlike):
        return []
    record = None if runs is None else runs[0].calls.get(f"{path}#1")
    rank = record.inputs[0].ndim if record is not None and record.inputs else None
    now = theirs
    if names[1] == "LayerNorm" and rank is not None:  # -1 is the last axis, and no other number is negative
        now = {n: v % rank if n.startswith("begin_") else v for n, v in now.items()}
    frameworks = [graph.origin.framework for graph in graphs]
    known = arguments_like(names[0], mine, frameworks[0], frameworks[1], rank)
    arguments = {name: _value(value, host) for name, value in known.items() if name in SIZES or not elsewhere}
    found: list[_Wanted] = []
    differing = {n: v for n, v in arguments.items() if n in now and not _same(v, now[n], host)}
    if differing:
        found.append(_Wanted(differing, "", {n: now[n] for n in differing}))
    right = class_like(names[0], frameworks[0], frameworks[1])
    accepted = None if elsewhere or right == names[1] or host.parameters(parts[1]) else _accepted(right, host)
    if accepted is not None:
        stated = {n: v for n, v in arguments.items() if n in accepted}
        stated = {n: v for n, v in stated.items() if not _is_default(v, accepted[n], host)}
        found.append(_Wanted(stated, right, {}))
    return found


def _accepted(class_name: str, host: Host) -> dict[str, Any] | None:
    """The arguments of a library's layer with their defaults; None where there is no such layer."""
    cls = getattr(_library(host), class_name, None)
    try:
        parameters = inspect.signature(cls).parameters if isinstance(cls, type) else None
    except (TypeError, ValueError):
        return None
    return None if parameters is None else {name: p.default for name, p in parameters.items()}


def _library(host: Host) -> Any:
    if host.name == "torch":
        from torch import nn
    else:
        from mindspore import nn
    return nn


def _value(value: Any, host: Host) -> Any:
    """An argument as the target's framework takes it."""
    if hasattr(value, "detach"):
        return host.tensor(value.detach().cpu().numpy())
    if hasattr(value, "asnumpy"):
        return host.tensor(value.asnumpy())
    return tuple(value) if isinstance(value, list) else value


def _same(a: Any, b: Any, host: Host) -> bool:
    if host.is_tensor(a) or host.is_tensor(b):
        return host.is_tensor(a) and host.is_tensor(b) and np.array_equal(host.array(a), host.array(b))
    return is_same_argument(a, b)


def _is_default(value: Any, default: Any, host: Host) -> bool:
    return default is not inspect.Parameter.empty and default is not None and _same(value, default, host)


def _made(wanted: _Wanted, part: Any, host: Host) -> Any:
    """The layer as it is to be; None where the library refuses it, or its weights do not fit."""
    try:
        if wanted.class_name:
            return getattr(_library(host), wanted.class_name)(**wanted.arguments)
        return host.remade(part, {**(arguments_of(part) or {}), **wanted.arguments})
    except Exception:  # the library's constructor may refuse any value
        return None


def _gives_the_same(made: Any, call: str, runs: tuple[Run, Run], target: Runner) -> bool:
    """Whether a layer gives what the source's gives on its inputs, and the one that is there does not.

    The one that is there must be given tensors of the same shapes: a port may turn them before and after.
    """
    mine, theirs = (run.calls.get(call) for run in runs)
    if mine is None or theirs is None or not isinstance(target, Replacing):
        return False
    if [a.shape for a in mine.inputs] != [a.shape for a in theirs.inputs]:
        return False
    inputs = [a.astype(b.dtype, copy=False) for a, b in zip(mine.inputs, theirs.inputs, strict=True)]
    try:
        outputs = target.run_part(call, made, inputs)
    except Exception:  # the library's layer may refuse what the source's takes
        return False
    if not _are_close(outputs, mine.outputs):
        return False
    try:
        return not _are_close(target.run_module(call, inputs), mine.outputs)
    except ModelError:
        return True


def _are_close(outputs: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> bool:
    pairs = list(zip(outputs, wanted, strict=False))
    return bool(pairs) and all(a.shape == b.shape and are_close(a, b, _TOLERANCE) for a, b in pairs)


def _row(graphs: tuple[Graph, Graph], path: str, other: str, wanted: _Wanted, host: Host) -> AttributeRow:
    part = part_at(graphs[1].origin.model, other)
    name, place = type(part).__name__, place_of(graphs[1], other)
    texts = {n: _literal(v, host) for n, v in wanted.arguments.items()}
    if wanted.class_name:
        stated = ", ".join(f"{n}={t}" for n, t in texts.items())
        return AttributeRow(
            path,
            other,
            name,
            "layer",
            type(part_at(graphs[0].origin.model, path)).__name__,
            name,
            statement=f"nn.{wanted.class_name}({stated}) in place of `nn.{name}`",
            place=place,
            rewrite=constructed_as(part, wanted.class_name, stated),
        )
    texts = {n: _literal(_short(n, v), host) for n, v in wanted.arguments.items()}
    now = tuple(_literal(_short(n, v), host) for n, v in wanted.now.items())
    mine = tuple(texts.values())
    return AttributeRow(
        path, other, name, ", ".join(texts), mine, now, arguments=tuple(texts.items()), place=place
    )


def _short(name: str, value: Any) -> Any:
    """A size of several equal numbers as one."""
    return value[0] if name in SIZES and isinstance(value, tuple) and len(set(value)) == 1 else value


def _literal(value: Any, host: Host) -> str:
    if not host.is_tensor(value):
        return literal(value)
    array = host.array(value)
    numbers = literal(array.tolist()) if array.size <= _MOST_NUMBERS else "…"
    return f"{'torch.tensor' if host.name == 'torch' else 'ms.Tensor'}({numbers})"


@contextmanager
def replaced(model: Any, layers: Mapping[str, Any]) -> Iterator[None]:
    """Put other layers in the places of a model's in a with block."""
    kept: list[tuple[dict[str, Any], str, Any]] = []
    lists: list[tuple[Any, Any]] = []
    for path, layer in layers.items():
        above, _, name = path.rpartition(".")
        holder = part_at(model, above) if above else model
        held = cast("dict[str, Any]", holder.__dict__.get("_cells") or holder.__dict__.get("_modules"))
        kept.append((held, name, held[name]))
        held[name] = layer
        if hasattr(holder, "cell_list"):  # MindSpore's SequentialCell keeps its Cells twice
            lists.append((holder, holder.cell_list))
            holder.cell_list = tuple(held.values())
    try:
        yield
    finally:
        for holder, before in reversed(lists):
            holder.cell_list = before
        for held, name, layer in reversed(kept):
            held[name] = layer
