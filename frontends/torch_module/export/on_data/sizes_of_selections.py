"""Runs of a model and its trace in which selections by data have other sizes than those of the example.

The trace goes on as for many elements where the model's code asks how many there are. Here both select as
many as the code's other side is for: where results agree, that side computes the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..decided_sizes import differs_from_program, replaced, run_program
from ..export_errors import size_error
from .boxes import boxes_together
from .selections import Asked, size_for_other

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram
    from torch.fx import Node
    from torch.nn import Module

    from ..example_arguments import Arguments

_SPARE = 20
"""Elements, at the least, of a selection that no condition of a run is about."""


class SelectionSizes:
    """Sizes for the selections of a run, by their order in it.

    Args:
        sizes: the elements of some selections; None leaves all as data have it.

    Attributes:
        selections: how many there have been so far.
    """

    def __init__(self, sizes: Mapping[int, int] | None = None) -> None:
        self.sizes = sizes
        self.selections = 0

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Select so many in the block, which is one run."""
        from torch.utils._python_dispatch import TorchDispatchMode

        self.selections = 0
        asked = self

        class Mode(TorchDispatchMode):
            def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                del types
                name = func.overloadpacket.__name__
                if name == "nonzero":
                    args = (asked.mask(args[0]), *args[1:])
                elif name == "masked_select":
                    args = (args[0], asked.mask(args[1]))
                elif name == "index" and any(_is_mask(index) for index in args[1]):
                    args = (args[0], [asked.mask(i) if _is_mask(i) else i for i in args[1]])
                found = func(*args, **(kwargs or {}))
                return asked.places(found, len(args[0])) if name == "nms" else found

        with boxes_together(), Mode():
            yield

    def _size(self, own: int, most: int) -> int:
        at = self.selections
        self.selections += 1
        if self.sizes is None:
            return own
        return min(self.sizes.get(at, max(own, _SPARE)), most)

    def mask(self, flags: torch.Tensor) -> torch.Tensor:
        """Return the flags with as many true as the run asks for: those that are true first, then others."""
        flags = flags != 0
        own = int(flags.sum())
        size = self._size(own, flags.numel())
        if size == own:
            return flags
        order = flags.flatten().logical_not().long().argsort(stable=True)
        chosen = flags.new_zeros(flags.numel())
        chosen[order[:size]] = True
        return chosen.reshape(flags.shape)

    def places(self, kept: torch.Tensor, rows: int) -> torch.Tensor:
        """Return as many places of rows as the run asks for: those that are kept first, then others."""
        import torch

        size = self._size(len(kept), rows)
        others = torch.ones(rows, dtype=torch.bool).index_fill_(0, kept, False)
        return torch.cat([kept, others.nonzero().flatten()])[:size]


def _is_mask(index: object) -> bool:
    import torch

    return isinstance(index, torch.Tensor) and index.dtype in (torch.bool, torch.uint8)


def sides_left_out(
    asked: Sequence[Asked], module: Module, program: ExportedProgram, bound: Arguments
) -> tuple[list[str], list[str]]:
    """Compare the sides of branches on the size of selections that a trace left out with what it has instead.

    Args:
        asked: the conditions that were answered as of many elements.
        module: the model.
        program: the trace.
        bound: its arguments.

    Returns:
        Notes on the branches that no run could take, and on those that compute the same.

    Raises:
        ModelError: E104 for a branch whose other side computes something else, or that no run could take and
            that is not on having elements at all.
    """
    assumed: list[str] = []
    same: list[str] = []
    try:
        selections = _selections_of(module, program, bound) if asked else {}
    except Exception as error:  # the example selects fewer than the trace takes out, as `topk` of a number
        condition = next((a for a in asked if not a.of_none), asked[0])
        raise size_error(condition.place, condition.selecting) from error
    for place, condition in {a.place: a for a in reversed(asked)}.items():  # of a loop, the first turn
        sizes = _sizes_for_other(condition, selections)
        differs = sizes and differs_from_program(module, program, bound, bound.tensors, sizes)
        if differs is False:
            same.append(
                f"the branch at {place} on how many elements data select is left out: in a run that takes "
                "it, it computes what the graph does"
            )
        elif differs is None and condition.of_none:
            assumed.append(
                f"the branch at {place} for a selection by data without elements is left out: regraft "
                "assumes that the model computes for none what its other code does"
            )
        else:
            raise size_error(place, condition.selecting)
    return assumed[::-1], same[::-1]


def _selections_of(module: Module, program: ExportedProgram, bound: Arguments) -> dict[Any, list[int]]:
    """Return torch's symbol of a size -> the selections of a run that have it, by their order."""
    found: dict[Any, list[int]] = {}
    sizes = SelectionSizes()
    before = 0

    def see(node: Node, _: object) -> None:
        nonlocal before
        value = node.meta.get("val")
        values = value if isinstance(value, (tuple, list)) else [value]
        for symbol in {s for v in values for size in getattr(v, "shape", ()) if (s := _symbol(size))}:
            if sizes.selections > before:
                found.setdefault(symbol, []).extend(range(before, sizes.selections))
        before = sizes.selections

    run_program(module, program, bound, bound.tensors, sizes, see)
    return found


def _symbol(size: Any) -> Any:
    expression = getattr(getattr(size, "node", None), "expr", None)
    return expression if getattr(expression, "is_Symbol", False) else None


def _sizes_for_other(asked: Asked, selections: Mapping[Any, Sequence[int]]) -> SelectionSizes | None:
    """Return sizes of selections at which a condition has the answer that was not traced; None for none."""
    condition = replaced(asked.condition, asked.environment)
    size = size_for_other(condition, asked.answer)
    if size is None or not all(symbol in selections for symbol in condition.free_symbols):
        return None
    return SelectionSizes({at: size for symbol in condition.free_symbols for at in selections[symbol]})
