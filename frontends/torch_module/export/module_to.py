"""`Module.to` in a model's own forward, where nothing changes: torch.export cannot swap parameters."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from .patches import original, patched

if TYPE_CHECKING:
    from torch.nn import Module


@contextmanager
def idle_moves() -> Iterator[None]:
    """While the block runs, `Module.to` gives a module as it is where its tensors are as asked for."""
    import torch

    library: Any = torch._C
    move = original("torch.nn:Module", "to")

    def to(self: Module, *args: Any, **kwargs: Any) -> Module:
        device, dtype, _, layout = library._nn._parse_to(*args, **kwargs)
        tensors = [*self.parameters(), *self.buffers()]
        stays = layout is None and all(
            device in (None, t.device)
            and (dtype in (None, t.dtype) or not (t.is_floating_point() or t.is_complex()))
            for t in tensors
        )
        return self if stays else move(self, *args, **kwargs)

    with patched("torch.nn:Module", to=to):
        yield
