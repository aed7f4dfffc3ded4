"""Reads PyTorch models: live modules, and programs saved with torch.export."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ...ir import Graph, InvalidGraphError, ModelError, UnsupportedError
from ..options import LoadOptions

if TYPE_CHECKING:
    from .capture import Captured

NamedArrays = Sequence[tuple[str, "np.ndarray | None"]]


def read(model: object, inputs: NamedArrays, options: LoadOptions) -> Graph:
    """Lower a model: module tree with calls, dataflow, parameters.

    Args:
        model: a live `torch.nn.Module`, an `ExportedProgram`, or the path of a saved ``.pt2`` program.
        inputs: example inputs (name or "", array or None); a saved program may have its own.
        options: which axes are dynamic.

    Returns:
        The graph, faithful to the program: nothing is fixed or folded.

    Raises:
        ModelError: when the inputs do not fit, or torch cannot capture or load the model.
        UnsupportedError: when operators have no lowering; all of them at once.
    """
    _require_torch()
    from .coverage import SpecialisedError

    refused: UnsupportedError | None = None
    try:
        return _lowered(model, inputs, options)
    except SpecialisedError as error:
        reason = f"PyTorch's decomposition of `{error}` needs them"
    except UnsupportedError as error:
        if error.code != "E203" or not (options.dynamic_batch or options.dynamic):
            raise
        refused, reason = error, error.message + (f" - at {error.place}" if error.place else "")
    try:
        graph = _lowered(model, inputs, replace(options, dynamic_batch=False, dynamic={}))
    except UnsupportedError as error:
        raise refused or error from None
    graph.origin.notes.append(f"static shapes: {reason}")
    return graph


def _lowered(model: object, inputs: NamedArrays, options: LoadOptions) -> Graph:
    from .aliases import WriteError
    from .capture import require_runnable
    from .functional import functionalised

    captured, reference = _captured(model, inputs, options)
    try:
        graph = _graph_of(captured, options)
    except InvalidGraphError:
        require_runnable(captured)
        raise
    except UnsupportedError as refusal:
        of_writes = refusal.code == "E201" or isinstance(refusal, WriteError)
        without_writes = functionalised(captured) if of_writes else None
        if without_writes is None:
            raise
        try:
            captured, graph = without_writes, _graph_of(without_writes, options)
        except UnsupportedError:
            raise refusal from None
    notes = graph.origin.notes
    _state_origin(graph, reference, model, captured)
    graph.origin.notes.extend(notes)
    return graph


def _graph_of(captured: Captured, options: LoadOptions) -> Graph:
    """The graph of a capture, with the lowering's notes."""
    from .autocast import state_casts
    from .lowering import Lowering
    from .tree import tree_of_module, tree_of_program

    state_casts(captured.program)
    graph = Graph()
    tree = (
        tree_of_program(graph, captured.program)
        if captured.module is None
        else tree_of_module(graph, captured.module)
    )
    lowering = Lowering(captured, tree, partial=options.partial)
    lowering.run()
    graph.origin.notes = lowering.context.notes
    return graph


def read_tree(model: object, options: LoadOptions) -> Graph:
    """Read modules, registrations and parameters only; no model code runs.

    Args:
        model: as for `read`.
        options: not needed here.

    Returns:
        A graph without operators and without module calls.

    Raises:
        ModelError: when the model cannot be loaded.
    """
    del options
    _require_torch()
    from torch.nn import Module

    from .tree import tree_of_module, tree_of_program

    graph = Graph()
    graph.origin.framework, graph.origin.model = "torch", model
    if isinstance(model, Module):
        graph.origin.reference = type(model).__name__
        tree_of_module(graph, model)
    else:
        program, graph.origin.reference = _program(model)
        tree_of_program(graph, program)
    return graph


def _captured(model: object, inputs: NamedArrays, options: LoadOptions) -> tuple[Captured, str]:
    from torch.nn import Module

    from .arguments import arrange_of
    from .capture import Captured, capture, example_arrays

    if isinstance(model, Module):
        return capture(model, inputs, options), type(model).__name__
    program, reference = _program(model)
    return Captured(program, None, example_arrays(program, inputs), arrange=arrange_of(program)), reference


def _program(model: object):
    from torch.export import ExportedProgram

    from .capture import load_program

    if isinstance(model, ExportedProgram):
        return model, "ExportedProgram"
    if isinstance(model, (str, Path)):
        return load_program(Path(model)), str(model)
    raise ModelError("E101", f"expected a torch module or exported program, got `{type(model).__name__}`")


def _state_origin(graph: Graph, reference: str, model: object, captured: Captured) -> None:
    from .tree import lost_in_evaluation

    origin = graph.origin
    origin.framework, origin.reference, origin.model = "torch", reference, model
    names = [n.name for n in graph.input_nodes()]
    origin.inputs = dict(zip(names, captured.examples, strict=True)) if captured.examples else {}
    origin.notes = list(captured.notes)
    origin.assumed = list(captured.assumed)
    origin.arrange = captured.arrange
    if captured.module is not None:
        origin.notes = ["captured in evaluation mode", *origin.notes, *lost_in_evaluation(captured.module)]


def _require_torch() -> None:
    try:
        import torch  # noqa: F401
    except ImportError as error:
        raise ModelError(
            "E105",
            "expected PyTorch to be installed, got no module `torch`",
            hint="pip install torch==2.13.0",
        ) from error


__all__ = ["read", "read_tree"]
