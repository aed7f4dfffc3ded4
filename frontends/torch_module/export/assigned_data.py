"""Follows `y.data = v`, which gives a tensor the values of another without an operator that torch records."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any

from ....ir import ModelError
from ..modules.live_state import may_assign
from .export_errors import user_location
from .tracer_state import slot

if TYPE_CHECKING:
    from types import FunctionType

    from torch.fx import Node
    from torch.nn import Module


@dataclass(slots=True)
class AssignedData:
    """The assignments to `.data` that a trace followed.

    Attributes:
        places: where they are, each once.
        names: the parameters and buffers among what they assign to.
        constant: those to which values are assigned that no input decides.
        stored: the nodes of those to which nothing is assigned.
    """

    places: list[str] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    constant: set[str] = field(default_factory=set)
    stored: set[Node] = field(default_factory=set)

    def clear(self) -> None:
        """Forget what the last trace followed, before another one of the same model."""
        for kept in (self.places, self.names, self.constant, self.stored):
            kept.clear()


@contextmanager
def data_assigned(module: Module, functions: Iterable[FunctionType]) -> Iterator[AssignedData]:
    """Trace `y.data = v` as a detached `v`, which is what `y` stands for from then on.

    Only a model whose code may assign to an attribute of that name pays for it: every call of torch's
    functions is looked at. A parameter or buffer to which values are assigned that no input decides keeps
    its node: `assigned_by` finds these values.

    Args:
        module: the model.
        functions: the functions that its calls may run.

    Raises:
        ModelError: E104, inside, where a tensor is assigned to that the model keeps and does not register,
            or one first without the inputs and then with them.
    """
    found = AssignedData()
    if not may_assign(functions):
        yield found
        return
    import torch
    from torch._subclasses import FakeTensor
    from torch.fx.experimental.proxy_tensor import get_proxy_mode, set_proxy_slot
    from torch.overrides import TorchFunctionMode
    from torch.utils._pytree import tree_map

    attribute: Any = torch.Tensor.data
    native: Any = torch._C
    kept = {id(tensor): (tensor, name) for name, tensor in _registered(module).items()}
    alike = _names_alike(module)

    def traced(leaf: Any) -> Any:
        """Return what the trace has for a tensor that an attribute holds besides its registered name."""
        tensor, name = kept.get(id(leaf), (None, ""))
        return leaf if tensor is None else _registered(module).get(name, leaf)

    class Mode(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            del types
            mode: Any = get_proxy_mode() if func == attribute.__set__ else None
            if found.names or mode is not None:
                args, kwargs = tree_map(traced, (args, kwargs))
            if mode is None:
                return func(*args, **(kwargs or {}))
            tensor, values = args
            registered = _registered(module)
            found.stored.update(
                s.proxy.node
                for name, own in registered.items()
                if name not in found.names and (s := mode.tracer.tensor_tracker.get(own))
            )
            names = {one for name, own in registered.items() if own is tensor for one in alike[name]}
            is_followed = not names.isdisjoint(found.names)
            node = slot(mode.tracer, values).proxy.node
            if names and not is_followed and not _reads_input(node, found.stored):
                found.constant |= names
                return func(tensor, values)
            place = user_location(traceback.extract_stack())
            if not names.isdisjoint(found.constant):
                raise ModelError(
                    "E104",
                    "torch.export cannot follow what is assigned to `.data` of a buffer that an assignment "
                    "before it gave values without the inputs",
                    place=place,
                    hint="assign these values to a name of their own, not to the buffer",
                )
            if not isinstance(tensor, FakeTensor):
                raise ModelError(
                    "E104",
                    "torch.export cannot follow what is assigned to `.data` of an unregistered tensor",
                    place=place,
                    hint="register it (`self.register_buffer(name, tensor)`), or assign the attribute itself",
                )
            values = values.detach()
            for one in [tensor, *(registered[name] for name in names)]:
                with native.DisableTorchFunction():
                    func(one, values)
                set_proxy_slot(one, mode.tracer, slot(mode.tracer, values))
            found.names |= names
            if place not in found.places:
                found.places.append(place)
            return None

    returned = module.register_forward_hook(lambda _module, _inputs, output: tree_map(traced, output))
    try:
        with Mode():
            yield found
    finally:
        returned.remove()


def _registered(module: Module) -> dict[str, Any]:
    import torch

    kind = torch.nn.Module  # whose `named_parameters` an attribute of the module's own may hide
    ways = kind.named_parameters, kind.named_buffers
    return dict(chain.from_iterable(way(module, remove_duplicate=False) for way in ways))


def _names_alike(module: Module) -> dict[str, list[str]]:
    """Return the name of each parameter or buffer -> all names of its tensor, as a trace has one for each."""
    tensors = _registered(module)
    names: dict[int, list[str]] = {}
    for name, tensor in tensors.items():
        names.setdefault(id(tensor), []).append(name)
    return {name: names[id(tensor)] for name, tensor in tensors.items()}


def _reads_input(node: Node, stored: set[Node]) -> bool:
    """Whether a node is computed from an input of the traced model, which none of the stored nodes is."""
    seen: set[Node] = set()
    todo = [node]
    while todo:
        node = todo.pop()
        if node in seen or node in stored:
            continue
        if node.op == "placeholder":
            return True
        seen.add(node)
        todo += node.all_input_nodes
    return False
