"""A program without writes in place, where these go into views that the lowering does not follow."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from ..coverage import SpecialisedError
from ..nodes import graph_modules, target_name
from ..symbols import is_symbolic
from .tensors import tensor_placeholders
from .tracing import frozen, unlogged

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.fx import Node

    from .capture import Captured

_STOPPING = frozenset(
    {"wrap_with_set_grad_enabled", "aten.detach.default", "aten.detach_.default", "aten.detach_copy.default"}
)
"""Operators that end gradients, which a program loses that is traced without gradients."""


def functionalised(captured: Captured) -> Captured | None:
    """The same capture with every write made a new value by PyTorch, operators undecomposed; None for none.

    PyTorch traces the whole program again, which the lowering's own treatment of writes saves; it also knows
    writes into views of every kind, and results given by ``out=``.

    Raises:
        SpecialisedError: when PyTorch makes constants of symbolic sizes of the inputs on the way.
    """
    import torch

    program = captured.program
    if not any(_writes(node) for node in _nodes(program)) or _stopping(program):
        return None
    symbolic = _symbolic(program)
    quiet = unlogged("torch.export")
    still = frozen(program.parameters())  # autograd forbids some of the writes that a run without it may do
    try:
        with still, torch.no_grad(), quiet, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = program.run_decompositions({})
    except Exception:  # torch's tracing raises many kinds; the lowering's refusal is the one to show
        return None
    if _symbolic(found) < symbolic:
        raise SpecialisedError("a write into a view")
    mutated = found.graph_signature.user_inputs_to_mutate.values()
    notes = [
        f"the model overwrites its input `{n}`; the graph leaves the caller's array alone" for n in mutated
    ]
    return replace(
        captured, program=found, idle=_counterparts(captured, found), notes=[*captured.notes, *notes]
    )


def _nodes(program: ExportedProgram) -> Iterator[Node]:
    return (node for module in graph_modules(program.graph_module) for node in module.graph.nodes)


def _symbolic(program: ExportedProgram) -> int:
    """Count the symbolic sizes of the inputs."""
    sizes = [size for node in tensor_placeholders(program) for size in node.meta["val"].shape]
    return sum(map(is_symbolic, sizes))


def _writes(node: Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    return schema is not None and bool(schema.is_mutable)


def _stopping(program: ExportedProgram) -> bool:
    """Whether some operator ends gradients of values that may be trained."""
    return any(target_name(node.target) in _STOPPING for node in _nodes(program))


def _counterparts(captured: Captured, found: ExportedProgram) -> set[Node]:
    """Return the idle dropouts in the new program: they stay in order."""
    targets = {node.target for node in captured.idle}
    old, new = (
        [node for node in program.graph.nodes if node.target in targets]
        for program in (captured.program, found)
    )
    if len(old) != len(new):
        return set()
    return {there for here, there in zip(old, new, strict=True) if here in captured.idle}
