"""Numbers that a model computes of constants and of its buffers alone, which torch.export takes for data."""

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

LIMIT = 2**16
"""Elements up to which the values of a tensor are computed while it is traced."""

_PROXIES = "torch.fx.experimental.proxy_tensor"


class _Limit:
    """The upper limit of a known size; a symbolic size is above it."""

    def __ge__(self, size: object) -> bool:
        return isinstance(size, int) and size <= LIMIT


@contextmanager
def numbers_of_constants(*, buffers: int = 0) -> Iterator[None]:
    """Trace with the values of tensors that no input leads to, so that numbers made of these alone are known.

    The proxies of torch's tracer hold the values of constants of one element, and compute with them. Here
    they hold those of larger ones, and of tensors that operators make of numbers (`arange`, `linspace`).

    Args:
        buffers: the number of elements up to which values of buffers are known too. Not true of a buffer
            that the model writes: `writes_numbers` tells.
    """
    proxies: Any = importlib.import_module(_PROXIES)
    tracked = original(_PROXIES, "track_tensor")
    values: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
    sharing: dict[int, list[Any]] = {}

    def keep(fakes: dict[str, torch.Tensor], module: Module) -> None:
        for name, buffer in module.named_buffers(remove_duplicate=False):
            if buffer.numel() <= buffers:
                values[id(fakes[name])] = fakes[name], buffer  # held, so that no other takes its identity

    without_modes = importlib.import_module("torch")._C.DisableTorchFunction

    def track(tensor: torch.Tensor, proxy: Any, *, constant: torch.Tensor | None, tracer: Any) -> None:
        node = proxy.node
        if constant is None and id(tensor) in values and node.op == "placeholder":
            with proxies.unset_fake_temporarily():
                constant = values[id(tensor)][1].detach().clone()
        elif constant is None and _makes(node) and tensor.numel() <= _Limit():
            with proxies.unset_fake_temporarily():
                constant = node.target(*node.args, **node.kwargs)
        with without_modes():  # which would be asked about each size
            tracked(tensor, proxy, constant=constant, tracer=tracer)
        memory = _memory(tensor)
        if memory is None:
            return
        if constant is not None:
            sharing.setdefault(memory, []).append(proxies.get_proxy_slot(tensor, tracer))
        elif written_argument(node) is not None:  # with what is not known: nor are its views any more
            for slot in sharing.pop(memory, ()):
                slot.constant = None

    tracking = patched(_PROXIES, track_tensor=track, CONSTANT_NUMEL_LIMIT=_Limit())
    if buffers:
        with seen_fakes(keep), tracking:
            yield
    else:
        with tracking:
            yield


def _makes(node: torch.fx.Node) -> bool:
    """Whether an operator makes a tensor of numbers alone, the same at each call."""
    import torch

    return (
        node.op == "call_function"
        and isinstance(node.target, torch._ops.OpOverload)
        and node.target.namespace == "aten"
        and torch.Tag.nondeterministic_seeded not in node.target.tags
        and not node.all_input_nodes
    )


def _memory(tensor: torch.Tensor) -> int | None:
    try:
        return tensor.untyped_storage()._cdata
    except (NotImplementedError, RuntimeError):
        return None


def writes_numbers(program: ExportedProgram, limit: int) -> bool:
    """Whether a program writes into a buffer of so few elements, whose values are others at its next run."""
    buffers = program.graph_signature.inputs_to_buffers
    written = {written_argument(node) for node in program.graph.nodes} - {None}
    return any(n.name in buffers and n.meta["val"].numel() <= limit for n in written if n is not None)


def takes_numbers_of_buffers(program: ExportedProgram) -> bool:
    """Whether a program takes a number out of a tensor that no input of the user leads to."""
    given = set(program.graph_signature.user_inputs)
    led: set[torch.fx.Node] = set()
    for node in program.graph.nodes:
        if node.name in given or any(each in led for each in node.all_input_nodes):
            led.add(node)
        elif str(node.target) in _TAKING:
            return True
    return False


_TAKING = ("aten.item.default", "aten._local_scalar_dense.default")
