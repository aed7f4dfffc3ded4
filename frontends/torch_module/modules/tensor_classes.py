"""Parameters of a class of their own as plain buffers: quantised weights beside their scales.

Such a tensor (torchao's, say) consists of plain ones, of which `__tensor_flatten__` names the attributes. It
is the floats that it stands for where it only holds a weight in fewer bits, and runs the operators of its
class where it quantises activations too.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from ....ir.quantised_parts import CODES, part_role
from .tree import PARTS

if TYPE_CHECKING:
    import torch
    from torch.nn import Module

_OF_ACTIVATIONS = ("act_quant_kwargs", "act_pre_scale", "act_quant_scale", "activation_quantization")
"""Attributes of torchao's classes that say how the other operand of a product is quantised."""

_INTEGERS = "qdata"
"""Attribute of torchao's classes that holds the integers."""


@dataclass(frozen=True, slots=True)
class _Composition:
    """The plain tensors of which a tensor consists, and the function that joins them.

    Attributes:
        make: makes it of them, by attribute.
        parts: attribute -> name of the buffer.
        is_weight: whether it only stands for floats.
    """

    make: Callable[[dict[str, Any]], Any]
    parts: dict[str, str]
    is_weight: bool

    def of(self, module: Module) -> Any:
        """Return the tensor, or the floats that it stands for, made of a module's buffers."""
        made = self.make({attribute: module._buffers[name] for attribute, name in self.parts.items()})
        return made.dequantize() if self.is_weight else made


def with_plain_tensors(root: Module) -> Module:
    """Return a module whose composed parameters are plain buffers, on the same memory; itself without any."""
    import torch

    kind = torch.nn.Module  # whose `parameters` an attribute of the module's own may hide
    tensors = [*kind.parameters(root), *kind.buffers(root)]
    if not any(map(_is_composed, tensors)):
        return root
    twin = copy.deepcopy(root, {id(tensor): tensor for tensor in tensors})
    for module in list(kind.modules(twin)):
        for held in (module._parameters, module._buffers):
            for name, tensor in list(held.items()):
                if tensor is not None and _is_composed(tensor):
                    del held[name]
                    _split(module, name, tensor)
    return twin


def plain_parts(tensor: torch.Tensor) -> list[torch.Tensor]:
    """Return the plain tensors that a tensor is made of: itself, unless it is of a class like those above."""
    if not _is_composed(tensor):
        return [tensor]
    composed: Any = tensor
    return [getattr(tensor, attribute) for attribute in composed.__tensor_flatten__()[0]]


def _is_composed(tensor: Any) -> bool:
    """Whether a tensor consists of plain ones, and is not one of several parts of a distributed one."""
    has_parts = hasattr(type(tensor), "__tensor_flatten__") and hasattr(type(tensor), "__tensor_unflatten__")
    return has_parts and not hasattr(tensor, "full_tensor")


def _split(module: Module, name: str, tensor: torch.Tensor) -> None:
    """Register the parts of a tensor as buffers, of which its attribute makes it whenever it is read."""
    kind: Any = type(tensor)
    composed: Any = tensor
    attributes, context = composed.__tensor_flatten__()
    size, stride = tensor.shape, tensor.stride()
    parts = {attribute: f"{name}_{attribute}" for attribute in attributes}
    roles = module.__dict__.setdefault(PARTS, {})
    for attribute, buffer in parts.items():
        module.register_buffer(buffer, getattr(tensor, attribute))
        roles[buffer] = part_role(name, CODES if attribute == _INTEGERS else attribute)
    is_weight = hasattr(tensor, "dequantize") and all(
        getattr(tensor, attribute, None) is None for attribute in _OF_ACTIVATIONS
    )
    composition = _Composition(
        lambda found: kind.__tensor_unflatten__(found, context, size, stride), parts, is_weight
    )
    module.__dict__.setdefault("_compositions", {})[name] = composition
    module.__class__ = _class_with(type(module), name)


@cache
def _class_with(kind: type[Module], name: str) -> type[Module]:
    """Return a class that has the attribute as a property and is the given one in all else."""
    made = property(lambda module: module._compositions[name].of(module))
    body = {"__module__": kind.__module__, "__qualname__": kind.__qualname__, "__doc__": kind.__doc__}
    return type(kind.__name__, (kind,), {**body, name: made})
