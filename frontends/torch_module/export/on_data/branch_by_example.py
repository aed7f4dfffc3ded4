"""Branches on data, which torch.export refuses, taken as the example inputs take them; every one is said."""

from __future__ import annotations

import linecache
import re
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...source_places import source_line
from ..export_errors import user_location
from ..patches import patched, seen_fakes

if TYPE_CHECKING:
    import sympy
    import torch
    from torch.export import ExportedProgram
    from torch.nn import Module


@dataclass(frozen=True, slots=True)
class Decision:
    """A condition on data that the example inputs decided.

    Attributes:
        condition: of torch's symbols.
        holds: whether it does for the example.
        place: file and line of the model's code that asked.
        asked: the same, the file by its whole path.
        of_truth: whether it is one of truth values: a count or a size would be another for most inputs.
    """

    condition: sympy.Basic
    holds: bool
    place: str
    asked: str
    of_truth: bool

    @property
    def repeats(self) -> bool:
        """Whether it is asked at each turn of a loop."""
        file, _, line = self.asked.rpartition(":")
        return linecache.getline(file, int(line or 0)).lstrip().startswith("while ")

    def note(self) -> str:
        """Return a note for the reader of the result."""
        if self.repeats:
            return (
                f"the loop at {self.place} runs as often as for the example inputs: for inputs that need "
                "another number, the model computes something else than the graph"
            )
        taken = "true" if self.holds else "false"
        return (
            f"the branch on data at {self.place} is taken as the example inputs take it "
            f"(`{self.condition}` is {taken}): for inputs that take the other, the model computes "
            "something else than the graph"
        )


def loops_decided(notes: Iterable[str]) -> list[str]:
    """Return the places of loops whose iterations the example decided, by the notes of decisions."""
    found = (re.match(r"the loop at (\S+) runs as often as for the example", note) for note in notes)
    return [match[1] for match in found if match is not None]


def numbers_fixed(program: ExportedProgram) -> list[str]:
    """Return a note for every place that takes a number out of data of which shapes allow one value."""
    import operator

    found: dict[str, None] = {}
    for check in program.graph.find_nodes(op="call_function", target=_assertion()):
        waiting = [n for n in check.all_input_nodes if n.target is operator.eq]
        while waiting:
            node = waiting.pop()
            if str(node.target) != "aten.item.default":
                waiting += [n for n in node.all_input_nodes if not hasattr(n.meta.get("val"), "shape")]
                continue
            found[
                f"the number that {source_line(node)} takes out of a tensor is the one that shapes of the "
                "example ask for: for inputs that make it another, the model computes something else than "
                "the graph"
            ] = None
    return list(found)


def _assertion() -> Any:
    import torch

    return torch.ops.aten._assert_scalar.default


@contextmanager
def decided_by_example() -> Iterator[list[Decision]]:
    """Trace with the example's values beside the fake ones; yields what they will have decided."""
    import torch._functorch.config as config
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    decisions: list[Decision] = []

    def record(environment: ShapeEnv, condition: sympy.Basic, result: Any) -> None:
        frames = traceback.extract_stack()
        place, asked = user_location(frames), user_location(frames, whole=True)
        ranges: dict[Any, Any] = environment.var_to_range  # before what is decided narrows them
        bounds = [(ranges[s].lower, ranges[s].upper) if s in ranges else None for s in condition.free_symbols]
        found = Decision(condition, bool(result), place, asked, all(b == (0, 1) for b in bounds))
        if found not in decisions:
            decisions.append(found)

    said = patched("torch.fx.experimental.symbolic_shapes:ShapeEnv", _log_real_tensor_propagation=record)
    unchecked = patched("torch._library.utils:MutationChecker", check=lambda _: None)
    with said, unchecked, config.patch(fake_tensor_propagate_real_tensors=True), seen_fakes(_put_values):
        yield decisions


def _put_values(fakes: dict[str, torch.Tensor], module: Module) -> None:
    """Put the values of parameters and buffers beside the fake ones: torch 2.13 leaves any memory there."""
    named = (module.named_parameters, module.named_buffers)
    for name, tensor in (pair for pairs in named for pair in pairs(remove_duplicate=False)):
        beside: Any = fakes[name]
        beside.real_tensor = tensor.detach().clone()  # a trace may write into it


def depends_on_data(error: BaseException | None) -> bool:
    """Whether an export failed because the model's code asks for the value of a tensor."""
    from torch._subclasses.fake_tensor import DataDependentOutputException
    from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

    while error is not None:
        if isinstance(error, (GuardOnDataDependentSymNode, DataDependentOutputException)):
            return True
        error = error.__cause__ or error.__context__
    return False
