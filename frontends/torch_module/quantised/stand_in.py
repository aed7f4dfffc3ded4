"""A stand-in for quantised tensors, which torch.export cannot follow: integers beside their scale.

Every function of torch runs on the floats that the integers stand for, and its result is quantised by the
scale that torch gives that result; what only moves elements runs on the integers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeGuard

import torch
import torch.ao.quantization.fx._decomposed  # registers its operators
from torch import Tensor
from torch.utils import _pytree as pytree

_OPS: Any = torch.ops.quantized_decomposed

_STORED = {
    torch.quint8: (torch.uint8, 0, 255),
    torch.qint8: (torch.int8, -128, 127),
    torch.qint32: (torch.int32, -(2**31), 2**31 - 1),
    torch.quint4x2: (torch.uint8, 0, 15),
}
"""Quantised type -> that of the integers, and their bounds."""

_OF_SHAPES = frozenset(
    {
        "size",
        "dim",
        "ndim",
        "shape",
        "numel",
        "stride",
        "storage_offset",
        "is_contiguous",
        "device",
        "layout",
        "requires_grad",
        "grad",
        "is_cuda",
        "is_sparse",
        "__len__",
        "is_leaf",
        "names",
        "nelement",
        "ndimension",
        "dim_order",
        "is_meta",
        "itemsize",
        "is_mkldnn",
        "is_nested",
        "is_complex",
        "is_inference",
        "is_conj",
        "is_neg",
        "element_size",
        "_backward_hooks",
        "data_ptr",
        "get_device",
        "is_cpu",
        "is_mps",
        "is_xpu",
    }
)
"""Functions and attributes of which the integers give the same."""

_MOVING = frozenset(
    {
        "view",
        "reshape",
        "flatten",
        "unflatten",
        "permute",
        "transpose",
        "swapaxes",
        "swapdims",
        "t",
        "movedim",
        "moveaxis",
        "squeeze",
        "unsqueeze",
        "contiguous",
        "clone",
        "detach",
        "alias",
        "expand",
        "expand_as",
        "view_as",
        "reshape_as",
        "narrow",
        "select",
        "split",
        "chunk",
        "unbind",
        "tensor_split",
        "__getitem__",
        "index_select",
        "gather",
        "flip",
        "roll",
        "repeat",
        "repeat_interleave",
        "unfold",
        "diagonal",
        "channel_shuffle",
        "native_channel_shuffle",
        "pixel_shuffle",
        "pixel_unshuffle",
        "as_strided",
        "cpu",
        "requires_grad_",
        "adjoint",
        "mT",
        "T",
        "mH",
        "H",
        "tile",
        "take_along_dim",
        "rot90",
        "fliplr",
        "flipud",
        "hsplit",
        "vsplit",
        "dsplit",
        "atleast_1d",
        "atleast_2d",
        "atleast_3d",
        "data",
        "detach_",
    }
)
"""Functions that move elements and leave them as they are."""

_AVERAGING = frozenset(
    {
        "adaptive_avg_pool1d",
        "adaptive_avg_pool2d",
        "adaptive_avg_pool3d",
        "avg_pool1d",
        "avg_pool2d",
        "avg_pool3d",
        "mean",
        "interpolate",
        "upsample",
        "upsample_bilinear",
        "upsample_nearest",
    }
)
"""Functions of which torch averages the integers themselves: the middle between two of them is common."""


FUNCTIONS: dict[Any, Callable[..., Any]] = {}
"""A function of torch's that quantises or takes quantised tensors -> what computes it on stand-ins."""

OPERATORS: dict[str, Callable[..., Any]] = {}
"""Name of an operator of `torch.ops.quantized` -> what computes it."""


class NoFormError(Exception):
    """A model uses quantised tensors in a way that has no form yet; the text names it."""


class Scale(NamedTuple):
    """A scale in which integers stand for floats.

    Attributes:
        scale: the length of a step, or one for each place of the axis.
        zero: the integer that stands for 0, or likewise.
        dtype: torch's quantised type.
        axis: the axis of several scales.
    """

    scale: float | Tensor
    zero: int | Tensor
    dtype: torch.dtype
    axis: int | None = None

    def quantise(self, x: Tensor) -> Quantised:
        """Return floats in this scale."""
        stored, low, high = _STORED[self.dtype]
        scale, zero = self.scale, self.zero
        if self.axis is not None:
            codes = _OPS.quantize_per_channel(x, scale, zero, self.axis, low, high, stored)
        elif isinstance(scale, Tensor):
            zero = zero if isinstance(zero, Tensor) else torch.tensor([zero])
            codes = _OPS.quantize_per_tensor.tensor(x, scale, zero, low, high, stored)
        else:
            codes = _OPS.quantize_per_tensor(x, scale, int(zero), low, high, stored)
        return Quantised(codes, self, (x, self))

    def dequantise(self, codes: Tensor) -> Tensor:
        """Return the floats that integers stand for."""
        stored, low, high = _STORED[self.dtype]
        scale, zero = self.scale, self.zero
        if self.axis is not None:
            return _OPS.dequantize_per_channel(codes, scale, zero, self.axis, low, high, stored)
        if isinstance(scale, Tensor):
            zero = zero if isinstance(zero, Tensor) else torch.tensor([zero])
            return _OPS.dequantize_per_tensor.tensor(codes, scale, zero, low, high, stored)
        return _OPS.dequantize_per_tensor(codes, scale, int(zero), low, high, stored)

    def steps(self, x: Tensor) -> Tensor | None:
        """Return where floats lie among the integers before they are rounded; None for several scales."""
        if self.axis is not None:
            return None
        _, low, high = _STORED[self.dtype]
        return torch.clamp(x / self.scale + self.zero, low, high)


def scale_of(tensor: Tensor) -> Scale:
    """Return the scale of a quantised tensor."""
    if tensor.qscheme() == torch.per_tensor_affine:
        return Scale(tensor.q_scale(), tensor.q_zero_point(), tensor.dtype)
    scales, zeros = tensor.q_per_channel_scales(), tensor.q_per_channel_zero_points()
    return Scale(scales.to(torch.float32), zeros, tensor.dtype, tensor.q_per_channel_axis())


class Quantised(Tensor):
    """A quantised tensor, as integers of a plain type.

    Attributes:
        codes: the integers.
        by: how they stand for floats.
        before: the floats that were rounded to them, and in which scale; None where that is not known.
    """

    codes: Tensor
    by: Scale
    before: tuple[Tensor, Scale] | None

    @staticmethod
    def __new__(cls, codes: Tensor, by: Scale, before: tuple[Tensor, Scale] | None = None) -> Quantised:
        """Make one of integers."""
        made = torch.Tensor._make_wrapper_subclass(cls, codes.shape, dtype=torch.float32)
        made.codes, made.by, made.before = codes, by, before
        return made

    def floats(self) -> Tensor:
        """Return the floats that it stands for."""
        return self.by.dequantise(self.codes)

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run one of torch's functions; see the module."""
        del types
        return run(func, args, kwargs or {})

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Refuse what has come past torch's functions."""
        raise NoFormError(f"`{func}`")


def is_stand_in(x: object) -> TypeGuard[Quantised]:
    """Whether a value is a quantised tensor's stand-in; no function of torch is called for it."""
    return type(x) is Quantised


def is_moving(func: Any) -> bool:
    """Whether a function of torch's moves elements and leaves them as they are."""
    return _name_of(func) in _MOVING


def real(x: Any) -> Any:
    """Return the floats of a stand-in; anything else as it is."""
    return x.floats() if is_stand_in(x) else x


def run(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run one of torch's functions on stand-ins."""
    name = _name_of(func)
    known = _known(func)
    if known is not None:
        return known(*args, **kwargs)
    given = _stand_ins(args, kwargs)
    if not given:
        return func(*args, **kwargs)
    first = given[0]
    own = _OWN.get(name)
    if own is not None:
        return own(*args, **kwargs)
    if name in _OF_SHAPES:
        return func(*replaced(args, lambda x: x.codes), **kwargs)
    if name in _MOVING and len(given) == 1 and first.by.axis is None:
        found = func(*replaced(args, lambda x: x.codes), **replaced(kwargs, lambda x: x.codes))
        return pytree.tree_map_only(Tensor, lambda codes: Quantised(codes, first.by), found)
    if name in _AVERAGING and first.by.axis is None:
        found = _average(func, name, args, kwargs)
        return Quantised(found.codes, first.by, found.before)
    result = quantised_as_torch(func, func, *args, **kwargs)
    in_place = (name.endswith("_") and not name.endswith("__")) or kwargs.get("inplace") is True
    if in_place and is_stand_in(result) and is_stand_in(args[0]):
        return _set_codes(args[0], result)
    return result


def _known(func: Any) -> Callable[..., Any] | None:
    """Return what computes one of torch's functions; None for one that needs no form of its own.

    Raises:
        NoFormError: for a function of quantised tensors alone without one.
    """
    name = getattr(func, "_qualified_op_name", "")
    if not name and hasattr(func, "_overloadpacket"):
        name = func._overloadpacket._qualified_op_name
    if name.startswith("quantized::"):
        if name.partition("::")[2] not in OPERATORS:
            raise NoFormError(f"`{name.replace('::', '.')}`")
        return OPERATORS[name.partition("::")[2]]
    return FUNCTIONS.get(func) if getattr(func, "__hash__", None) is not None else None


def _average(func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Quantised:
    """Return averages of integers, rounded to even as torch rounds them, whatever stands for 0."""
    names = ["input", "kernel_size", "stride", "padding", "ceil_mode", "count_include_pad"]
    if name.startswith("avg_pool"):
        kwargs = dict(zip(names, args, strict=False)) | kwargs
        args = (kwargs.pop("input"),)
        padding = kwargs.get("padding", 0)
        sizes = list(padding) if isinstance(padding, (list, tuple)) else [padding] * int(name[8])
        if any(sizes) and kwargs.get("count_include_pad", True) and not kwargs.get("ceil_mode"):
            around = [size for size in reversed(sizes) for _ in range(2)]
            x = args[0]
            padded = torch.nn.functional.pad(x.codes.to(torch.float32), around, value=float(x.by.zero))
            y = func(padded, **kwargs | {"padding": 0})
            return Scale(1.0, 0, x.by.dtype).quantise(y)
    args, kwargs = replaced((args, kwargs), lambda x: Quantised(x.codes, Scale(1.0, 0, x.by.dtype)))
    return quantised_as_torch(func, func, *args, **kwargs)


def quantised_as_torch(func: Any, of_floats: Any, *args: Any, **kwargs: Any) -> Any:
    """Return what a function of floats gives, in the scale that torch's own has of quantised tensors."""
    scales = iter(_scales_of_results(func, args, kwargs))
    found = of_floats(*replaced(args, real), **replaced(kwargs, real))
    return pytree.tree_map_only(Tensor, lambda x: _in_scale(x, next(scales)), found)


def _in_scale(x: Tensor, by: Scale | None) -> Tensor:
    return x if by is None else by.quantise(x)


def _scales_of_results(func: Any, args: Any, kwargs: Any) -> list[Scale | None]:
    """Return in which scale torch gives each tensor of a result: the function runs on quantised zeros.

    Raises:
        NotImplementedError: where torch has no such function of quantised tensors.
    """
    from torch.utils._python_dispatch import _disable_current_modes

    first = _stand_ins(args, kwargs)[0].by
    plain = torch._C._DisablePythonDispatcher()  # kernels, no decompositions
    with plain, _disable_current_modes(), torch._C.DisableTorchFunction():
        found = func(*replaced(args, _zeros, every=True), **replaced(kwargs, _zeros, every=True))
        tensors = [x for x in pytree.tree_leaves(found) if isinstance(x, Tensor)]
        return [_scale_of(x, first) for x in tensors]


_UNKNOWN = 0.0123, 7
"""A scale and a zero point in the place of those that the model holds in tensors."""


def _zeros(x: Any) -> Any:
    """Return zeros of the shape and the scale of a tensor, which no tracing sees; anything else as it is."""
    if not isinstance(x, Tensor):
        return _example_of(x)
    if is_stand_in(x):
        by = x.by
        shape = [_example_of(size) for size in x.codes.shape]
        if by.axis is not None:
            raise NoFormError("functions of tensors with several scales")
        scale, zero = (_UNKNOWN[0], _UNKNOWN[1]) if isinstance(by.scale, Tensor) else (by.scale, int(by.zero))
        empty: Any = torch._empty_affine_quantized  # type: ignore[attr-defined]
        return empty(shape, scale=scale, zero_point=zero, dtype=by.dtype).fill_(0)
    return torch.zeros([_example_of(size) for size in x.shape], dtype=x.dtype)


def _example_of(x: Any) -> Any:
    """Return the number that a symbol has in the example, without a guard on it; anything else as it is."""
    return x.node.hint if isinstance(x, (torch.SymInt, torch.SymFloat)) else x


def _scale_of(x: Tensor, first: Scale) -> Scale | None:
    """Return the scale of a real quantised tensor; that of the first operand where it is the same."""
    if not x.is_quantized:
        return None
    found = scale_of(x)
    return first if isinstance(first.scale, Tensor) and found[:2] == _UNKNOWN else found


def _name_of(func: Any) -> str:
    """Return the name of a function, a method, or an attribute that is read."""
    name = getattr(func, "__name__", "")
    return getattr(func.__self__, "__name__", name) if name == "__get__" else name


def _stand_ins(*nests: Any) -> list[Quantised]:
    return [x for x in pytree.tree_leaves(nests) if is_stand_in(x)]


def replaced(nest: Any, by: Callable[[Any], Any], *, every: bool = False) -> Any:
    """Return arguments with other values in the place of the stand-ins, or of every tensor."""
    return pytree.tree_map(lambda x: by(x) if every or is_stand_in(x) else x, nest)


def _set_codes(x: Quantised, other: Any) -> Quantised:
    x.codes, x.by, x.before = other.codes, other.by, other.before
    return x


def _dtype(x: Quantised) -> torch.dtype:
    return x.by.dtype


def _to(x: Quantised, *args: Any, **kwargs: Any) -> Quantised:
    """Leave a quantised tensor where it is: torch changes its device and layout alone."""
    del args, kwargs
    return x


_OWN: dict[str, Callable[..., Any]] = {
    "dequantize": lambda x: x.floats(),
    "int_repr": lambda x: x.codes,
    "q_scale": lambda x: x.by.scale,
    "q_zero_point": lambda x: x.by.zero,
    "is_quantized": lambda _: True,
    "qscheme": lambda x: torch.per_tensor_affine if x.by.axis is None else torch.per_channel_affine,
    "dtype": _dtype,
    "is_floating_point": lambda _: False,
    "to": _to,
    "copy_": lambda x, other, *_, **__: _set_codes(x, other),
}
