"""Finds the sizes that a target has fixed, as MindSpore exports its files: it is compared at those."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..ir import Graph
from .inputs import bindings, make_inputs, resize_inputs
from .runners.onnx_runner import OnnxRunner
from .runners.runs import Runner
from .runners.select_runner import Target

_PROGRAM = "ExportedProgram"
"""Class of torch's programs, whose sizes are those that they were exported with."""


def find_fixed_sizes(source: Graph, target: Target, runner: Runner) -> dict[str, int]:
    """Return symbol of the source -> the only size that the target has for it.

    Args:
        source: the source's graph.
        target: as in `verify`; a live model takes any size that its code does.
        runner: the target's runner.
    """
    found: dict[str, int] = {}
    for node, dims in zip(source.input_nodes(), _input_dims(target, runner), strict=False):
        for symbol, size in zip(node.type.shape or (), dims, strict=False):
            if isinstance(symbol, str) and isinstance(size, int) and size > 0:
                found.setdefault(symbol, size)
    return found


def _input_dims(target: Target, runner: Runner) -> Sequence[Sequence[object]]:
    """Return the sizes of each of the target's inputs; none where its file states none."""
    if isinstance(target, Graph):
        model = target.origin.model
        if isinstance(model, (str, Path)) or type(model).__name__ == _PROGRAM:
            return [node.type.shape or () for node in target.input_nodes()]
        return []
    return [runner.dims(name) for name in runner.inputs] if isinstance(runner, OnnxRunner) else []


def at_sizes(source: Graph, fixed: dict[str, int]) -> Graph:
    """Return a source whose examples have these sizes: itself, where they have them already."""
    usual = bindings(source)
    if all(usual.get(symbol) == size for symbol, size in fixed.items()):
        return source
    sizes, new = {**usual, **fixed}, source.copy()
    given = source.origin.inputs
    new.origin.inputs = resize_inputs(source, given, sizes) if given else make_inputs(source, sizes)
    return new
