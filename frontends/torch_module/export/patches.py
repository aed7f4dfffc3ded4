"""What of torch's is another while a module is exported, and is put back whatever happens."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from torch.nn import Module


@contextmanager
def replaced(home: Any, **attributes: Any) -> Iterator[None]:
    """Inside, attributes of a module or class that are its own are others."""
    kept = {name: vars(home)[name] for name in attributes}
    try:
        for name, attribute in attributes.items():
            setattr(home, name, attribute)
        yield
    finally:
        for name, attribute in kept.items():
            setattr(home, name, attribute)


def seen_fakes(
    see: Callable[[dict[str, torch.Tensor], Module], None],
) -> AbstractContextManager[None]:
    """Inside, `see` gets the fake parameters and buffers that an export makes, by name, and their module."""
    trace: Any = importlib.import_module("torch.export._trace")
    made = trace._fakify_params_buffers

    def make(mode: Any, module: Module) -> dict[str, torch.Tensor]:
        fakes: dict[str, torch.Tensor] = made(mode, module)
        see(fakes, module)
        return fakes

    return replaced(trace, _fakify_params_buffers=make)
