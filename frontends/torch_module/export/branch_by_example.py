"""Branches on data, which torch.export refuses, taken as the example inputs take them; every one is said."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .buffer_constants import numbers_of_buffers, writes_numbers
from .export_errors import user_location
from .hide_tracing import told_that_it_runs
from .nonzero_loops import loops_over_every_place
from .patches import replaced, seen_fakes
from .substitutes import substituted

if TYPE_CHECKING:
    import sympy
    import torch
    from torch.export import ExportedProgram
    from torch.fx import Node
    from torch.nn import Module


@dataclass(frozen=True, slots=True)
class Decision:
    """A condition on data that the example inputs decided.

    Attributes:
        condition: of torch's symbols.
        holds: whether it does for the example.
        place: file and line of the model's code that asked.
        of_truth: whether it is one of truth values: a count or a size would be another for most inputs.
    """

    condition: sympy.Basic
    holds: bool
    place: str
    of_truth: bool

    def note(self) -> str:
        """What a reader of the result should know."""
        taken = "true" if self.holds else "false"
        return (
            f"the branch on data at {self.place} is taken as the example inputs take it "
            f"(`{self.condition}` is {taken}): for inputs that take the other, the model computes "
            "something else than the graph"
        )


def otherwise(
    export: Callable[[], ExportedProgram], error: Exception, *, raised_by_model: bool
) -> tuple[ExportedProgram, list[str]]:
    """The export that torch refuses, with equivalents of what it cannot trace, or decided by the example.

    Args:
        export: exports the model.
        error: what it raised.
        raised_by_model: whether the model's own code did, rather than torch.

    Returns:
        The program and what a reader of the result should know.

    Raises:
        Exception: whatever torch or the model's code raises.
    """
    try:
        with substituted(), numbers_of_buffers():
            program = export()
        if writes_numbers(program):
            raise error
        return program, []
    except Exception:  # the model's own code and torch.export may raise anything
        if not depends_on_data(error):
            if not raised_by_model:
                raise
            return _as_it_runs(export, error)
    try:
        with numbers_of_buffers(), loops_over_every_place() as notes:
            program, decisions = export(), []
    except Exception:  # as above
        with numbers_of_buffers(), loops_over_every_place() as notes, decided_by_example() as decisions:
            program = export()
    if writes_numbers(program):
        raise error
    return program, [*notes, *_assumed(program, decisions, error)]


def _as_it_runs(export: Callable[[], ExportedProgram], error: Exception) -> tuple[ExportedProgram, list[str]]:
    """The export of code that fails where it asks whether it is traced; it may then branch on data too."""
    with told_that_it_runs(), decided_by_example() as decisions:
        program = export()
    return program, _assumed(program, decisions, error)


def _assumed(program: ExportedProgram, decisions: Sequence[Decision], error: Exception) -> list[str]:
    """What is to be said of branches that the example decided.

    Raises:
        Exception: `error`, where it decided numbers too.
    """
    if not all(d.of_truth for d in decisions):
        raise error
    of_constants = _symbols_of_constants(program)
    return [d.note() for d in decisions if not d.condition.free_symbols <= of_constants]


def _symbols_of_constants(program: ExportedProgram) -> set[sympy.Symbol]:
    """The numbers read from tensors that neither inputs nor parameters nor buffers lead to."""
    constants = set(program.graph_signature.inputs_to_lifted_tensor_constants)
    depends: dict[Node, bool] = {}
    found: set[sympy.Symbol] = set()
    for node in program.graph.nodes:
        if node.op == "placeholder":
            depends[node] = node.name not in constants
            continue
        depends[node] = any(depends.get(n, True) for n in node.all_input_nodes)
        number = getattr(node.meta.get("val"), "node", None)
        if str(node.target) == "aten.item.default" and number is not None and not depends[node]:
            found |= number.expr.free_symbols
    return found


@contextmanager
def decided_by_example() -> Iterator[list[Decision]]:
    """Trace with the example's values beside the fake ones; yields what they will have decided."""
    import torch._functorch.config as config
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    decisions: list[Decision] = []

    def record(environment: ShapeEnv, condition: sympy.Basic, result: Any) -> None:
        place = user_location(traceback.extract_stack())
        ranges: dict[Any, Any] = environment.var_to_range  # before what is decided narrows them
        bounds = [(ranges[s].lower, ranges[s].upper) if s in ranges else None for s in condition.free_symbols]
        found = Decision(condition, bool(result), place, all(b == (0, 1) for b in bounds))
        if found not in decisions:
            decisions.append(found)

    said = replaced(ShapeEnv, _log_real_tensor_propagation=record)
    with said, config.patch(fake_tensor_propagate_real_tensors=True), seen_fakes(_put_values):
        yield decisions


def _put_values(fakes: dict[str, torch.Tensor], module: Module) -> None:
    """Put the values of parameters and buffers beside the fake ones: torch 2.13 leaves any memory there."""
    named = (module.named_parameters, module.named_buffers)
    for name, tensor in (pair for pairs in named for pair in pairs(remove_duplicate=False)):
        beside: Any = fakes[name]
        beside.real_tensor = tensor.detach().clone()  # a trace may write into it


def depends_on_data(error: BaseException | None) -> bool:
    """Whether an export failed because the model's code asks for the value of a tensor."""
    from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

    while error is not None:
        if isinstance(error, GuardOnDataDependentSymNode):
            return True
        error = error.__cause__ or error.__context__
    return False
