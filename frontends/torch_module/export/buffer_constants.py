"""Numbers that a model computes of its buffers alone, which torch.export takes for data."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..aliases import written_argument
from .patches import original, patched, seen_fakes

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram
    from torch.nn import Module


@contextmanager
def numbers_of_buffers() -> Iterator[None]:
    """Trace with the values of buffers of one element, so that sizes made of these alone are known.

    The proxies of torch's tracer hold the values of small constants; here they hold those of buffers too.
    Not true of a buffer that the model writes: `writes_numbers` tells.
    """
    proxies: Any = importlib.import_module("torch.fx.experimental.proxy_tensor")
    tracked = original("torch.fx.experimental.proxy_tensor", "track_tensor")
    values: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def keep(fakes: dict[str, torch.Tensor], module: Module) -> None:
        for name, buffer in module.named_buffers(remove_duplicate=False):
            if buffer.numel() == 1:
                values[id(fakes[name])] = fakes[name], buffer  # held, so that no other takes its identity

    def track(tensor: torch.Tensor, proxy: Any, *, constant: torch.Tensor | None, tracer: Any) -> None:
        if constant is None and id(tensor) in values and proxy.node.op == "placeholder":
            with proxies.unset_fake_temporarily():
                constant = values[id(tensor)][1].detach().clone()
        tracked(tensor, proxy, constant=constant, tracer=tracer)

    with seen_fakes(keep), patched("torch.fx.experimental.proxy_tensor", track_tensor=track):
        yield


def writes_numbers(program: ExportedProgram) -> bool:
    """Whether a program writes into a buffer of one element, whose value then is another at its next run."""
    buffers = program.graph_signature.inputs_to_buffers
    written = {written_argument(node) for node in program.graph.nodes} - {None}
    return any(n.name in buffers and n.meta["val"].numel() == 1 for n in written if n is not None)
