"""Methods of torch's own in an export: moves in a forward, members by name, gradients of a model's own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from .patches import original, patched

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.nn import Module


@contextmanager
def idle_moves() -> Iterator[None]:
    """Make `Module.to` return an already converted module unchanged while the block runs.

    torch.export cannot swap parameters.
    """
    import torch

    library: Any = torch._C
    move = original("torch.nn:Module", "to")

    def to(self: Module, *args: Any, **kwargs: Any) -> Module:
        device, dtype, _, layout = library._nn._parse_to(*args, **kwargs)
        tensors = [*torch.nn.Module.parameters(self), *torch.nn.Module.buffers(self)]
        stays = layout is None and all(
            device in (None, t.device)
            and (dtype in (None, t.dtype) or not (t.is_floating_point() or t.is_complex()))
            for t in tensors
        )
        return self if stays else move(self, *args, **kwargs)

    with patched("torch.nn:Module", to=to):
        yield


@contextmanager
def wrapped_alone() -> Iterator[None]:
    """Run a module that is wrapped for training on several devices without its wrapper, inside the block."""

    def forward(self: Any, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)

    with patched("torch.nn.parallel:DistributedDataParallel", forward=forward):
        yield


@contextmanager
def registered_members() -> Iterator[None]:
    """Make torch find registered submodules, also behind a method of the same name, inside the block."""
    home = "torch.nn.utils._named_member_accessor:NamedMemberAccessor"
    find = original(home, "get_submodule")

    def get_submodule(self: Any, name: str) -> Module:
        prefix, _, last = name.rpartition(".")
        if name and name not in self.memo:
            found = self.get_submodule(prefix)._modules.get(last)
            if found is not None:
                self.memo[name] = found
        return find(self, name)

    with patched(home, get_submodule=get_submodule):
        yield


def without_new_buffers(program: ExportedProgram) -> ExportedProgram:
    """Take out copies of buffers that a forward registers for the first time; changes the program.

    Torch writes each buffer that a forward assigns back to the placeholder at the buffer's place. A new one
    has none, and an input's comes after the others. Torch gives such a copy the very record of its value.
    """
    import torch

    inputs = set(program.graph_signature.user_inputs)
    for node in list(program.graph.nodes):
        if node.target is torch.ops.aten.copy_.default and not node.users:
            written, value = node.args[:2]
            if written.name in inputs and node.meta.get("val") is value.meta.get("val"):
                program.graph.erase_node(node)
    return program


@contextmanager
def own_gradients() -> Iterator[list[str]]:
    """Record the names of the model's own `torch.autograd.Function`s applied in the block, each once."""
    kept = original("torch.autograd:Function", "apply")
    found: list[str] = []

    def apply(cls: type, *arguments: Any, **keywords: Any) -> Any:
        if not cls.__module__.startswith("torch.") and cls.__name__ not in found:
            found.append(cls.__name__)
        return kept.__get__(None, cls)(*arguments, **keywords)

    with patched("torch.autograd:Function", apply=classmethod(apply)):
        yield found
