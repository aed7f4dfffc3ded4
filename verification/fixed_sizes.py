"""Finds the sizes that a target has fixed, as MindSpore exports its files: it is compared at those."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

from ..formats.renames import read_renames
from ..ir import Graph
from .inputs import bindings, make_inputs, resize_inputs
from .report import OutputRow
from .runners.onnx_runner import OnnxRunner
from .runners.registry import renames_of_output
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
    if isinstance(runner, OnnxRunner):
        return [runner.dims(name) for name in runner.inputs]
    return _stated_beside(target)


def _stated_beside(target: object) -> Sequence[Sequence[object]]:
    """Return the shapes for which a folder was written; none where it was for any."""
    if not isinstance(target, (str, Path)) or not (path := renames_of_output(Path(target))).is_file():
        return []
    stated = read_renames(path).get("inputs")
    if not isinstance(stated, list):
        return []
    return [shape if isinstance(shape, list) else [] for shape in cast("list[object]", stated)]


def at_sizes(source: Graph, fixed: dict[str, int]) -> Graph:
    """Return a source whose examples have these sizes: itself, where they have them already."""
    usual = bindings(source)
    if all(usual.get(symbol) == size for symbol, size in fixed.items()):
        return source
    sizes, new = {**usual, **fixed}, source.copy()
    given = source.origin.inputs
    new.origin.inputs = resize_inputs(source, given, sizes) if given else make_inputs(source, sizes)
    return new


def refuse_fixed_sizes(source: Graph, fixed: Mapping[str, int]) -> list[OutputRow]:
    """Return failing rows of a target that was written from a source with fewer fixed sizes; none else."""
    if not fixed:
        return []
    sizes, nan = ", ".join(f"{name}={size}" for name, size in sorted(fixed.items())), float("nan")
    reason = f"the target has only {sizes}, which is open in the source"
    return [OutputRow(name, sizes, (), nan, nan, 0.0, False, reason) for name, _ in source.outputs]
