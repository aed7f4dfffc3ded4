"""Loops over the places of `nonzero`, whose number depends on data, run for every place that there may be."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..export_errors import user_location

if TYPE_CHECKING:
    from torch import Tensor


@contextmanager
def loops_over_every_place() -> Iterator[list[str]]:
    """Trace `for place in flags.nonzero()` for all places of `flags`; yields what there will be to say of it.

    Layers of experts are written so, to leave out those that no token was sent to: these add nothing.
    """
    import torch
    from torch.overrides import TorchFunctionMode

    notes: list[str] = []
    counted: dict[int, tuple[Tensor, int]] = {}

    class Mode(TorchFunctionMode):
        def __torch_function__(
            self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
        ) -> Any:
            del types
            if func is torch.Tensor.unbind and id(args[0]) in counted:  # which iteration calls
                places = counted[id(args[0])][1]
                note = _note(places)
                if note not in notes:
                    notes.append(note)
                return tuple(torch.tensor([at]) for at in range(places))
            if func is torch.Tensor.__format__ and args[0].dim() == 0:  # an expert looked up by its name
                number = args[0].item()
                return format(number, args[1]) if isinstance(number, int) else func(*args)
            found = func(*args, **(kwargs or {}))
            if func in (torch.nonzero, torch.Tensor.nonzero) and isinstance(found, torch.Tensor):
                flags: Tensor = args[0]
                if flags.dim() == 1 and isinstance(flags.shape[0], int):
                    counted[id(found)] = found, flags.shape[0]  # held, so that no other takes its identity
            return found

    with Mode():
        yield notes


def _note(places: int) -> str:
    where = user_location(traceback.extract_stack())
    return (
        f"the loop at {where} over the places of `nonzero` runs for all {places}: regraft assumes that the "
        f"model computes nothing for any other place"
    )
