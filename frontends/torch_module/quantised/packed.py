"""Weights that torch.ao packs for its kernels, as buffers: integers beside their scales."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from ....ir.quantised_parts import CODES, part_role
from ..modules.tree import PARTS
from .stand_in import Quantised, Scale, scale_of

if TYPE_CHECKING:
    from torch.nn import Module

_OPS: Any = torch.ops.quantized

_LINEAR, _EMBEDDING = "quantized.LinearPackedParamsBase", "quantized.EmbeddingPackedParamsBase"
_CONVOLUTIONS = {"quantized.Conv2dPackedParamsBase": 2, "quantized.Conv3dPackedParamsBase": 3}
_CELL = "rnn.CellParamsBase"
_CLASSES = (_LINEAR, _EMBEDDING, _CELL, *_CONVOLUTIONS)
"""Classes of packed weights."""

_NUMBERS = ("scale", "zero_point", "output_scale", "output_zero_point")
"""Buffers of torch.ao's layers by which they quantise what they give."""

_QUANTISING = (torch.quantize_per_tensor, torch.quantize_per_channel)


class Geometry(NamedTuple):
    """The numbers that a packed convolution holds.

    Attributes:
        sizes: strides, paddings, dilations and output paddings.
        groups: number of groups.
        transposed: whether it goes the other way.
    """

    sizes: tuple[list[int], ...]
    groups: int
    transposed: bool


@dataclass(slots=True)
class Packed:
    """The packed weights of a layer, unpacked.

    Attributes:
        module: holds the weights as buffers.
        name: name of the integers among them; scales and so on stand beside it.
        bias_name: name of the bias; empty without one.
        axis: the axis of several scales.
        geometry: of a convolution.
        dtype: the type of the weight, which some layers ask for.
        narrows: whether the kernels leave out a bit of their inputs where they are asked to.
    """

    module: Module = field(repr=False)
    name: str
    bias_name: str = ""
    axis: int | None = None
    geometry: Geometry | None = None
    dtype: torch.dtype = torch.qint8
    narrows: bool = True

    def _held(self, suffix: str = "") -> Tensor:
        found = self.module._buffers[self.name + suffix]
        assert found is not None
        return found

    @property
    def _packed_params(self) -> Packed:
        """The weights themselves, as of the module that torch has around them."""
        return self

    @property
    def _packed_weight(self) -> Packed:
        """Likewise."""
        return self

    def codes(self) -> Tensor:
        """Return the integers."""
        return self._held()

    def bias(self) -> Tensor | None:
        """Return the bias."""
        return self.module._buffers[self.bias_name] if self.bias_name else None

    def weight(self) -> Tensor:
        """Return the floats that the weight stands for."""
        codes = self.codes()
        if codes.dtype == torch.float16:
            return codes.to(torch.float32)
        scale, zero = self._held("_scale"), self._held("_zero_point")
        if zero.is_floating_point():
            return (codes.to(torch.float32) - zero.unsqueeze(1)) * scale.unsqueeze(1)
        bounds = torch.iinfo(codes.dtype)
        given = scale, zero
        decomposed: Any = torch.ops.quantized_decomposed
        if self.axis is None:
            return decomposed.dequantize_per_tensor.tensor(codes, *given, bounds.min, bounds.max, codes.dtype)
        return decomposed.dequantize_per_channel(
            codes, *given, self.axis, bounds.min, bounds.max, codes.dtype
        )

    def largest_scale(self) -> float:
        """Return the length of the longest step of the weight; 0 for floats of 16 bits."""
        return 0.0 if self.is_of_halves else float(self._held("_scale").max())

    def rows(self, indices: Tensor) -> Tensor:
        """Return rows of a table."""
        codes, scale, zero = (self._held(suffix) for suffix in ("", "_scale", "_zero_point"))
        found = torch.nn.functional.embedding(indices, codes).to(torch.float32)
        return (found - zero[indices].unsqueeze(-1)) * scale[indices].unsqueeze(-1)

    @property
    def is_of_halves(self) -> bool:
        """Whether it holds floats of 16 bits."""
        return self.codes().dtype == torch.float16

    def reduces_range(self, asked: bool) -> bool:
        """Whether inputs that are quantised in every run have a bit less."""
        return asked and self.narrows


@dataclass(frozen=True, slots=True)
class Cell:
    """The packed weights of a recurrent cell, unpacked.

    Attributes:
        ih: the weights of its input.
        hh: those of its state.
        reduce_range: whether the kernels are asked to leave out a bit of both.
    """

    ih: Packed
    hh: Packed
    reduce_range: bool


def is_quantised(root: Module) -> bool:
    """Whether a model has layers of torch.ao that compute on integers."""
    return any(map(_computes_on_integers, torch.nn.Module.modules(root)))


def _computes_on_integers(module: Module) -> bool:
    home = type(module).__module__
    if home.startswith("torch.ao.nn.") and ".quantized" in home:
        return True
    if isinstance(module, torch.fx.GraphModule):
        return any(node.target in _QUANTISING for node in module.graph.nodes)
    return False


def with_unpacked(root: Module) -> Module:
    """Return a module whose packed weights are buffers; itself without any."""
    kind = torch.nn.Module  # whose `parameters` an attribute of the module's own may hide
    modules = list(kind.modules(root))
    if not any(map(_holds_packed, modules)):
        return root
    memo: dict[int, Any] = {id(t): t for t in (*kind.parameters(root), *kind.buffers(root))}
    for module in modules:
        memo |= {id(v): v for v in vars(module).values() if is_packed(v) or _is_quantised(v)}
    twin = copy.deepcopy(root, memo)
    for module, copied in zip(modules, list(kind.modules(twin)), strict=True):
        _unpack(module, copied)
    return twin


def _holds_packed(module: Module) -> bool:
    held = [value for table in _tables(module) for value in table.values()]
    return bool(_scales(module)) or any(is_packed(value) or _is_quantised(value) for value in held)


def is_packed(value: object) -> bool:
    """Whether a value is weights that are packed for a kernel."""
    return isinstance(value, torch.ScriptObject) and _class_of(value) in _CLASSES


def _is_quantised(value: object) -> bool:
    return isinstance(value, Tensor) and value.is_quantized


def _class_of(packed: Any) -> str:
    """Return the class of packed weights as torch names it."""
    return packed._type().qualified_name().removeprefix("__torch__.torch.classes.")


def _unpack(module: Module, twin: Module) -> None:
    """Put buffers in the place of a module's packed weights, or of those that torch keeps in a child of it.

    Args:
        module: holds the weights; its copy may hold them packed anew, for other kernels.
        twin: gets the buffers.
    """
    child = module._modules.get("_packed_params")
    if child is not None:
        packed = next(value for value in vars(child).values() if is_packed(value))
        del twin._modules["_packed_params"]
        _set(twin, "_packed_params", packed, getattr(child, "dtype", torch.qint8))
    for name, value in vars(module).items():
        if is_packed(value):
            _set(twin, name, value, torch.qint8)
    for held, own in zip(_tables(module), _tables(twin), strict=True):
        for name, value in list(held.items()):
            if _is_quantised(value):
                del own[name]
                twin._buffers[name] = value.int_repr()
                twin.__dict__.setdefault(PARTS, {})[name] = part_role(name, CODES)
                twin.__class__ = _class_with_tensor(type(twin), name, scale_of(value))
    for name, number in _scales(module).items():
        del twin._buffers[name]
        twin.__dict__[name] = number


def _tables(module: Module) -> tuple[dict[str, Any], ...]:
    """Return the tables in which a module may hold a tensor."""
    return vars(module), module._parameters, module._buffers


def _scales(module: Module) -> dict[str, float | int]:
    """Return the buffers that hold one number each, by which a module quantises."""
    held = {name: buffer for name, buffer in module._buffers.items() if buffer is not None}
    if type(module).__module__.startswith("torch.ao.nn."):
        return {name: held[name].item() for name in _NUMBERS if name in held}
    if not isinstance(module, torch.fx.GraphModule):
        return {}
    found = [node for node in module.graph.nodes if node.op == "get_attr" and node.target in held]
    return {
        str(node.target): held[str(node.target)].item()
        for node in found
        if held[str(node.target)].numel() == 1
        and all(user.target in _QUANTISING or "quantized." in str(user.target) for user in node.users)
    }


def _set(twin: Module, name: str, packed: Any, dtype: torch.dtype) -> None:
    """Put buffers, and what reads them, in the place of packed weights."""
    if _class_of(packed) == _CELL:
        (_, _, _, numbers, weights), _ = packed.__getstate__()
        ih, hh = (
            _unpacked(twin, f"weight_{part}", each, dtype)
            for part, each in zip(("ih", "hh"), weights, strict=True)
        )
        twin.__dict__[name] = Cell(ih, hh, bool(numbers and numbers[0]))
        return
    is_layer = name == "_packed_params"
    found = _unpacked(twin, "weight" if is_layer else name.removeprefix("_packed_"), packed, dtype)
    twin.__dict__[name] = found
    if is_layer:
        twin.__class__ = _class_without(type(twin))


def unpacked(packed: Any) -> Packed:
    """Return packed weights of a layer, unpacked, in a module of their own."""
    return _unpacked(torch.nn.Module(), "weight", packed, torch.qint8)


def _unpacked(module: Module, name: str, packed: Any, dtype: torch.dtype) -> Any:
    class_ = _class_of(packed)
    geometry: Geometry | None = None
    bias: Tensor | None = None
    if class_ == _LINEAR:
        weight, bias = _OPS.linear_unpack(packed)
        weight = weight if weight.is_quantized else weight.to(torch.float16)
    elif (rank := _CONVOLUTIONS.get(class_)) is not None:
        of = "conv_transpose" if getattr(_OPS, f"conv{rank}d_transpose")(packed) else "conv"
        weight, bias = getattr(_OPS, f"{of}{rank}d_unpack")(packed)
        geometry = _geometry(packed, rank)
    else:
        weight = _OPS.embedding_bag_unpack(packed)
    found = Packed(module, name, geometry=geometry, dtype=dtype, narrows=_narrows(packed, weight))
    _hold(module, found, weight)
    if bias is not None:
        found.bias_name = name.replace("weight", "bias") if "weight" in name else f"{name}_bias"
        module._buffers[found.bias_name] = bias.detach()
    return found


def _hold(module: Module, found: Packed, weight: Tensor) -> None:
    """Register a quantised weight's parts."""
    held: dict[str, Tensor] = {}
    if not weight.is_quantized:
        held[""] = weight
    elif weight.qscheme() in (torch.per_channel_affine, torch.per_channel_affine_float_qparams):
        found.axis = weight.q_per_channel_axis()
        held[""] = weight.int_repr()
        held["_scale"] = weight.q_per_channel_scales().to(torch.float32)
        held["_zero_point"] = weight.q_per_channel_zero_points()
    else:
        held[""] = weight.int_repr()
        held["_scale"] = torch.tensor([weight.q_scale()], dtype=torch.float32)
        held["_zero_point"] = torch.tensor([weight.q_zero_point()])
    roles = module.__dict__.setdefault(PARTS, {})
    for suffix, tensor in held.items():
        module._buffers[found.name + suffix] = tensor
        roles[found.name + suffix] = part_role(found.name, suffix[1:] or CODES)


def _narrows(packed: Any, weight: Tensor) -> bool:
    """Whether the kernel for which weights are packed leaves out a bit of its input where it is asked to."""
    if _class_of(packed) != _LINEAR or not weight.is_quantized:
        return True
    x = torch.linspace(-1, 1.1, weight.shape[1]).reshape(1, -1)
    found = [_OPS.linear_dynamic(x, packed, reduce_range=asked) for asked in (True, False)]
    return not torch.equal(*found)


def _geometry(packed: Any, rank: int) -> Geometry:
    def number(name: str) -> Any:
        return getattr(_OPS, f"conv{rank}d_{name}")(packed)

    sizes = tuple(list(number(name)) for name in ("stride", "padding", "dilation", "output_padding"))
    return Geometry(sizes, int(number("groups")), bool(number("transpose")))


def _class_with_tensor(kind: type[Module], name: str, by: Scale) -> type[Module]:
    """Return a class of which an attribute is a stand-in for a quantised tensor."""
    made = property(lambda module: Quantised(module._buffers[name], by))
    body = {"__module__": kind.__module__, "__qualname__": kind.__qualname__, "__doc__": kind.__doc__}
    make: Any = type(kind)  # a class of classes of its own, for layers with weights
    return make(kind.__name__, (kind,), {**body, name: made})


@cache
def _class_without(kind: type[Module]) -> type[Module]:
    """Return a class without the methods `weight` and `bias`, which buffers now are, and those that pack."""

    def held(name: str) -> Any:
        return property(lambda module: module._buffers.get(name))

    body = {
        "__module__": kind.__module__,
        "__qualname__": kind.__qualname__,
        "__doc__": kind.__doc__,
        "__deepcopy__": None,
        "__copy__": None,
        "__getstate__": torch.nn.Module.__getstate__,
        "__setstate__": torch.nn.Module.__setstate__,
        "weight": held("weight"),
        "bias": held("bias"),
    }
    make: Any = type(kind)
    return make(kind.__name__, (kind,), body)
