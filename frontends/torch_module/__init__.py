"""Reads PyTorch models: live modules, and programs saved with torch.export."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ...ir import (
    Graph,
    InvalidGraphError,
    ModelError,
    RegraftError,
    TensorData,
    UnsupportedError,
    framework_errors_told,
)
from ...ir.outside.file_kinds import kind_of
from ..inputs import as_arrays
from ..options import LoadOptions
from ..registry import note_framework

if TYPE_CHECKING:
    from torch.nn import Module

    from .export.capture import Captured
    from .saved.program import Saved

NamedArrays = Sequence[tuple[str, "np.ndarray | None"]]


def read(model: object, inputs: NamedArrays, options: LoadOptions) -> Graph:
    """Lower a model: module tree with calls, dataflow, parameters.

    Args:
        model: a live `torch.nn.Module`, an `ExportedProgram`, or the path of a saved ``.pt2`` program or of a
            TorchScript archive.
        inputs: example inputs (name or "", array or None); a saved program and a trace may have their own.
        options: which axes are dynamic.

    Returns:
        The graph, faithful to the program: nothing is fixed or folded.

    Raises:
        ModelError: when the inputs do not fit, or torch cannot capture or load the model.
        UnsupportedError: when operators have no lowering; all of them at once.
    """
    _require_torch()
    with _coherent(model):
        return _read(model, inputs, options)


def _read(model: object, inputs: NamedArrays, options: LoadOptions) -> Graph:
    from .coverage import SpecialisedError

    given = _opened(model)
    model = _plain(given)
    if model is not given:
        graph = _read(model, inputs, options)
        graph.origin.model = given
        return graph
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
    """Lower a model, with the values of small buffers as numbers where nothing else is lowered."""
    from .coverage import SpecialisedError
    from .export.constant_numbers import takes_numbers_of_buffers

    captured, reference = _captured(model, inputs, options)
    try:
        return _lowered_capture(captured, reference, options)
    except (SpecialisedError, UnsupportedError) as refusal:
        of_numbers = isinstance(refusal, SpecialisedError) or refusal.code == "E203"
        if not of_numbers or captured.module is None or not takes_numbers_of_buffers(captured.program):
            raise
        try:
            captured, reference = _captured(model, inputs, options, numbers=True)
            return _lowered_capture(captured, reference, options)
        except (SpecialisedError, RegraftError):
            raise refusal from None


def _lowered_capture(captured: Captured, reference: str, options: LoadOptions) -> Graph:
    from .aliases import WriteError
    from .export.capture import require_runnable
    from .export.export_errors import loop_error
    from .export.functionalise import functionalised
    from .export.on_data.branch_by_example import loops_decided

    opened = captured.program if captured.module is None else captured.module
    try:
        graph = _graph_of(captured, options)
    except InvalidGraphError:
        require_runnable(captured)
        raise
    except UnsupportedError as refusal:
        loops = loops_decided(captured.assumed)
        if refusal.missing and loops:
            raise loop_error(loops[0]) from refusal
        of_writes = refusal.code == "E201" or isinstance(refusal, WriteError)
        without_writes = functionalised(captured) if of_writes else None
        if without_writes is None:
            raise
        try:
            captured, graph = without_writes, _graph_of(without_writes, options)
        except UnsupportedError:
            raise refusal from None
    notes = graph.origin.notes
    _state_origin(graph, reference, opened, captured)
    graph.origin.notes.extend(notes)
    graph.origin.is_reading = hasattr(captured.module, "script_class")
    return graph


def _graph_of(captured: Captured, options: LoadOptions) -> Graph:
    """Return the graph of a capture, with the lowering's notes."""
    from .autocast import state_casts
    from .export.capture import assigned_values
    from .lowering import Lowerer
    from .modules.replaced_weights import retire_replaced
    from .modules.tree import tree_of_module, tree_of_program
    from .unread_draws import drop_unread_draws
    from .view_writes import take_parts_singly

    state_casts(captured.program)
    take_parts_singly(captured.program)
    drop_unread_draws(captured.program)
    graph = Graph()
    tree = (
        tree_of_program(graph, captured.program)
        if captured.module is None
        else tree_of_module(graph, captured.module)
    )
    for module in graph.modules:
        module.in_training = graph.modules.path(module.key) in captured.only_trained
    lowerer = Lowerer(captured, tree, partial=options.partial)
    lowerer.run()
    lowerer.context.notes.extend(retire_replaced(graph))
    values = assigned_values(captured)
    for key, paths in graph.parameter_paths().items() if values else ():
        for path in values.keys() & set(paths):
            graph.parameter(key).data = TensorData.of(values[path])
    graph.origin.notes = [
        *lowerer.context.notes,
        *(
            f"the forward assigns `{n}.data`: the graph has its values after a run on the inputs given"
            for n in values
        ),
    ]
    return graph


def read_tree(model: object, options: LoadOptions) -> Graph:
    """Read modules, registrations and parameters only; no model code runs.

    Args:
        model: as for `read`.
        options: whether a saved program is trusted.

    Returns:
        A graph without operators and without module calls.

    Raises:
        ModelError: when the model cannot be loaded.
    """
    _require_torch()
    with _coherent(model):
        return _read_tree(model, options)


def _read_tree(model: object, options: LoadOptions) -> Graph:
    from torch.nn import Module

    from .modules.tensor_classes import with_plain_tensors
    from .modules.tree import tree_of_module, tree_of_program

    graph = Graph()
    note_framework(graph, "torch")
    graph.origin.model = model
    model = _opened(model)
    if isinstance(model, _Archive):
        graph.origin.model = model = model.module
    if isinstance(model, Module):
        graph.origin.reference = type(model).__name__
        tree_of_module(graph, with_plain_tensors(model))
    else:
        saved, graph.origin.reference = _program(model, options)
        graph.origin.model = saved.program
        tree_of_program(graph, saved.program)
    return graph


def _captured(
    model: object, inputs: NamedArrays, options: LoadOptions, *, numbers: bool = False
) -> tuple[Captured, str]:
    from torch.nn import Module

    from .export.capture import Captured, capture, example_arrays
    from .export.example_arguments import arrange_of
    from .scripted.trusted_run import compare_with_torch

    if isinstance(model, Module):
        return capture(model, inputs, options, numbers=numbers), type(model).__name__
    if isinstance(model, _Archive):
        captured = capture(model.module, inputs or model.examples, options, numbers=numbers)
        if options.trust:
            captured.notes.append(compare_with_torch(model.path, captured))
        if model.examples:
            captured.notes.append(
                "a trace computes in training what it computed when it was made, as to batch norms and "
                "dropouts; the graph's layers train as torch's do"
            )
        return captured, str(model.path)
    saved, reference = _program(model, options)
    program = saved.program
    examples = example_arrays(saved, inputs, reference)
    return Captured(program, None, examples, arrange=arrange_of(program)), reference


def _program(model: object, options: LoadOptions) -> tuple[Saved, str]:
    import torch
    from torch.export import ExportedProgram
    from torch.utils import _pytree as pytree

    from .export.capture import load_program
    from .saved.program import Saved

    if isinstance(model, ExportedProgram):
        leaves = pytree.tree_leaves(model.example_inputs) if model.example_inputs else []
        return Saved(model, [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]), "ExportedProgram"
    if isinstance(model, (str, Path)):
        return load_program(Path(model), trust=options.trust), str(model)
    raise ModelError("E101", f"expected a torch module or exported program, got `{type(model).__name__}`")


@dataclass(frozen=True, slots=True)
class _Archive:
    """A TorchScript archive that was read.

    Attributes:
        path: its file.
        module: its root module.
        examples: inputs as it was traced with; none of a scripted module.
    """

    path: Path
    module: Module
    examples: NamedArrays


def _opened(model: object) -> object:
    """Return a model, read where it is the path of a TorchScript archive."""
    if not isinstance(model, Path) or kind_of(model) != "torchscript":
        return model
    from .scripted.modules import read_archive

    module, examples = read_archive(model)
    try:
        return _Archive(model, module, as_arrays(tuple(examples or ())))
    except RegraftError:  # of an input without axes, or of a type that no specification names
        return _Archive(model, module, [])


def _plain(model: object) -> object:
    """Return a module whose parameters are plain tensors; anything else as it is."""
    from torch.nn import Module

    from .modules.tensor_classes import with_plain_tensors
    from .quantised.packed import with_unpacked

    return with_unpacked(with_plain_tensors(model)) if isinstance(model, Module) else model


def _state_origin(graph: Graph, reference: str, model: object, captured: Captured) -> None:
    from .modules.tree import lost_in_evaluation, lost_in_file

    origin = graph.origin
    note_framework(graph, "torch")
    origin.reference, origin.model = reference, model
    names = [n.name for n in graph.input_nodes()]
    origin.inputs = dict(zip(names, captured.examples, strict=True)) if captured.examples else {}
    origin.notes = list(captured.notes)
    origin.assumed = list(captured.assumed)
    origin.arrange = captured.arrange
    if captured.module is not None:
        origin.notes = ["captured in evaluation mode", *origin.notes, *lost_in_evaluation(captured.module)]
    if captured.module is None or hasattr(captured.module, "script_class"):
        origin.notes += lost_in_file(graph)


@contextmanager
def _coherent(model: object) -> Iterator[None]:
    """Turn an error on a program from a file into one clear error about the file, in a with block.

    A file states types, names and sizes beside each other, and a stranger's may contradict itself in any way;
    what torch captured in this process does not. A live module may hide a method of torch's own walks.
    """
    try:
        yield
    except RegraftError as error:
        if isinstance(error, InvalidGraphError) and isinstance(model, (str, Path)):
            raise _incoherent(error.message, model) from error
        raise
    except Exception as error:
        from .export.export_errors import first_line, hidden_error

        if isinstance(model, (str, Path)):
            raise _incoherent(first_line(error), model) from error
        if hidden := hidden_error(model, error):
            raise hidden from error
        raise


def _incoherent(reason: str, path: str | Path) -> ModelError:
    return ModelError(
        "E101",
        f"the program contradicts itself: {reason}",
        place=str(path),
        hint="if torch runs it, this is a fault in regraft: --debug shows the traceback",
    )


def _require_torch() -> None:
    with framework_errors_told():
        import torch  # noqa: F401


__all__ = ["read", "read_tree"]
