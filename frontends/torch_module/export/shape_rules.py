"""Shapes of common operators with symbolic sizes, by rules in place of torch's decompositions.

torch finds the shape of an operator by the decomposition into others, each of which asks symbolic sizes
several questions; then it describes the result for a cache, and makes it a second time from the description,
where a size that varies is seldom found: the cache is left out. A rule answers where the sizes alone decide,
for contiguous values on the CPU; else it returns None, and torch goes its way.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from math import prod
from typing import Any

from .patches import original, patched
from .tracer_state import fake_tensor

Rule = Callable[..., Any]

_MODE = "torch._subclasses.fake_tensor:FakeTensorMode"
_ALIKE = (
    *("gelu", "silu", "hardtanh", "hardswish", "hardsigmoid", "leaky_relu", "elu", "relu", "mish"),
    *("sigmoid", "tanh", "erf", "exp", "rsqrt", "sqrt", "neg", "cos", "sin"),
)
"""Functions of one value, and numbers, whose result is like the value."""
_IN_PLACE = ("hardtanh_", "silu_", "hardswish_", "hardsigmoid_", "leaky_relu_", "relu_", "sigmoid_", "tanh_")

_KEPT = ("_fft", "linalg")
"""Families whose results the cache keeps: traces after the export find no shapes of them."""


def shapes_by_rule() -> AbstractContextManager[None]:
    """Find shapes by rules inside the block."""
    find = original(_MODE, "_cached_dispatch_impl")
    fakes: Any = importlib.import_module("torch._subclasses.fake_tensor")
    if find is None:
        return nullcontext()
    rules, kind, operator = _rules(), fakes.FakeTensor, importlib.import_module("torch")._ops.OpOverload

    def dispatched(self: Any, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        rule = None if kwargs or self.propagate_real_tensors else rules.get(func)
        found = rule(*args) if rule is not None and _are_plain(self, args, kind) else None
        if found is not None:
            return found
        if isinstance(func, operator) and _has_symbols(args, kind) and not func.__name__.startswith(_KEPT):
            return self._dispatch_impl(func, types, args, kwargs)  # past the cache
        return find(self, func, types, args, kwargs)

    return patched(_MODE, _cached_dispatch_impl=dispatched)


def _has_symbols(values: Sequence[Any], kind: type) -> bool:
    """Whether the sizes of tensors among values vary."""
    for value in values:
        if type(value) is kind:
            if value._has_symbolic_sizes_strides:
                return True
        elif type(value) is list and _has_symbols(value, kind):
            return True
    return False


def _are_plain(mode: Any, values: Sequence[Any], kind: type) -> bool:
    """Whether the tensors among values are this mode's, on the CPU and without known values."""
    import torch

    for value in values:
        if type(value) is kind:
            held: Any = value
            if held.fake_mode is not mode or held.constant is not None or held.fake_device.type != "cpu":
                return False
        elif isinstance(value, torch.Tensor) or (type(value) is list and not _are_plain(mode, value, kind)):
            return False
    return True


@cache
def _rules() -> dict[Any, Rule]:
    """Return the rule of each operator, of those that this torch has."""
    import torch

    rules: dict[str, Rule] = {
        "_native_batch_norm_legit_no_training.default": _normalised,
        "native_layer_norm.default": _layer_normalised,
        "_softmax.default": _softmax,
        "addmm.default": _addmm,
        "mm.default": _mm,
        "bmm.default": _bmm,
        "cat.default": _cat,
        "convolution.default": _convolution,
        "view.default": _view,
        "_unsafe_view.default": _view,
        "permute.default": _permute,
        "transpose.int": _transpose,
        "t.default": _t,
        **{f"{name}.default": _alike for name in _ALIKE},
        **{f"{name}.default": _in_place for name in _IN_PLACE},
    }
    found: dict[Any, Rule] = {}
    for name, rule in rules.items():
        packet, _, overload = name.partition(".")
        operator = getattr(getattr(torch.ops.aten, packet, None), overload, None)
        if operator is not None:
            found[operator] = rule
    return found


# -- sizes -----------------------------------------------------------------------------------------------


def _equal(a: Any, b: Any) -> bool:
    """Whether two sizes are one number or one expression, without a question to torch."""
    if type(a) is int or type(b) is int:
        return type(a) is type(b) and a == b
    return bool(a.node.expr == b.node.expr)


def _all_equal(a: Sequence[Any], b: Sequence[Any]) -> bool:
    return len(a) == len(b) and all(map(_equal, a, b))


def _strides(shape: Sequence[Any]) -> list[Any] | None:
    """Return the strides of contiguous values; None where a size may be 0, or 1 without being that number."""
    strides: list[Any] = []
    step: Any = 1
    for size in reversed(shape):
        if size == 0 if type(size) is int else not size.node.expr.is_positive:
            return None
        strides.append(step)
        step = step * size
    return strides[::-1]


def _is_contiguous(x: Any) -> bool:
    strides = _strides(x.shape)
    return strides is not None and _all_equal(x.stride(), strides)


def _new(like: Any, shape: Sequence[Any]) -> Any:
    """Return contiguous values of a type; None where their strides are not known."""
    strides = _strides(shape)
    if strides is None:
        return None
    return fake_tensor(shape, strides, like.dtype, like.fake_device, like.fake_mode)


def _seen(x: Any, shape: Sequence[Any], strides: Sequence[Any]) -> Any:
    """Return a view of a tensor."""
    from torch._dispatch.python import no_python_dispatcher
    from torch._subclasses.fake_tensor import FakeTensor, in_kernel_invocation_manager

    with no_python_dispatcher(), in_kernel_invocation_manager(x.fake_mode):
        values = x.as_strided(shape, strides, x.storage_offset())
    return FakeTensor(x.fake_mode, values, x.fake_device)


# -- rules -----------------------------------------------------------------------------------------------


def _alike(x: Any, *numbers: Any) -> Any:
    if not x.dtype.is_floating_point or not _is_contiguous(x):
        return None
    return _new(x, x.shape) if all(type(n) in (int, float, bool, str) for n in numbers) else None


def _in_place(x: Any, *numbers: Any) -> Any:
    return x if x.dtype.is_floating_point and all(type(n) in (int, float) for n in numbers) else None


def _normalised(x: Any, *_: object) -> Any:
    """Return the values and two empty statistics, as outside training."""
    import torch
    from torch._dispatch.python import no_python_dispatcher
    from torch._subclasses.fake_tensor import FakeTensor, in_kernel_invocation_manager

    with no_python_dispatcher(), in_kernel_invocation_manager(x.fake_mode):
        values = (torch.empty_like(x), *(torch.empty(0, dtype=x.dtype, device="meta") for _ in range(2)))
    return tuple(FakeTensor(x.fake_mode, value, x.fake_device) for value in values)


def _layer_normalised(x: Any, shape: Any, weight: Any, bias: Any, _eps: object) -> Any:
    axis = len(x.shape) - len(shape)
    factors = [t for t in (weight, bias) if t is not None]
    if any(t.dtype != x.dtype or not _all_equal(t.shape, shape) for t in factors):
        return None
    if axis < 0 or not shape or not _all_equal(x.shape[axis:], shape):
        return None
    if not x.dtype.is_floating_point or not _is_contiguous(x):
        return None
    statistics = [*x.shape[:axis], *([1] * len(shape))]
    return _new(x, x.shape), _new(x, statistics), _new(x, statistics)


def _softmax(x: Any, _axis: object, half_to_float: object) -> Any:
    return None if half_to_float else _alike(x)


def _mm(a: Any, b: Any) -> Any:
    if a.dtype != b.dtype or len(a.shape) != 2 or len(b.shape) != 2 or not _equal(a.shape[1], b.shape[0]):
        return None
    return _new(a, (a.shape[0], b.shape[1]))


def _addmm(bias: Any, a: Any, b: Any, *further: object) -> Any:
    fits = bias.dtype == a.dtype and len(bias.shape) == 1 and _equal(bias.shape[0], b.shape[-1])
    return _mm(a, b) if fits and not further else None


def _bmm(a: Any, b: Any) -> Any:
    if a.dtype != b.dtype or len(a.shape) != 3 or len(b.shape) != 3:
        return None
    if not (_equal(a.shape[0], b.shape[0]) and _equal(a.shape[2], b.shape[1])):
        return None
    return _new(a, (a.shape[0], a.shape[1], b.shape[2]))


def _cat(values: Sequence[Any], axis: int = 0) -> Any:
    if not values or len(values[0].shape) < 2:
        return None
    first, rank = values[0], len(values[0].shape)
    axis = axis + rank if axis < 0 else axis
    if not 0 <= axis < rank or any(len(v.shape) != rank or v.dtype != first.dtype for v in values):
        return None

    def others(value: Any) -> list[Any]:
        return [size for at, size in enumerate(value.shape) if at != axis]

    lengths: list[Any] = [v.shape[axis] for v in values]
    if not all(type(n) is int for n in lengths) or not all(map(_is_contiguous, values)):
        return None
    if not all(_all_equal(others(v), others(first)) for v in values):
        return None
    return _new(first, [*first.shape[:axis], sum(lengths), *first.shape[axis + 1 :]])


def _convolution(
    x: Any,
    weight: Any,
    bias: Any,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    _output_padding: object,
    groups: int,
) -> Any:
    rank = len(x.shape) - 2
    numbers = (*x.shape[1:], *weight.shape, *stride, *padding, *dilation, groups)
    if transposed or rank != 2 or len(weight.shape) != 4 or not all(type(n) is int for n in numbers):
        return None
    if x.dtype != weight.dtype or x.shape[1] != weight.shape[1] * groups or weight.shape[0] % groups:
        return None
    if not (len(stride) == len(padding) == len(dilation) == rank) or 0 in numbers[: 1 + rank + 4]:
        return None
    if bias is not None and (bias.dtype != x.dtype or not _all_equal(bias.shape, weight.shape[:1])):
        return None
    if not x.dtype.is_floating_point or not _is_contiguous(x) or not _is_contiguous(weight):
        return None
    spatial = zip(x.shape[2:], weight.shape[2:], stride, padding, dilation, strict=True)
    sizes = [(n + 2 * pad - gap * (kernel - 1) - 1) // step + 1 for n, kernel, step, pad, gap in spatial]
    return _new(x, (x.shape[0], weight.shape[0], *sizes)) if min(sizes) > 0 else None


def _view(x: Any, shape: Sequence[Any]) -> Any:
    if any(type(n) is int and n < 1 for n in shape):  # -1 is to be found
        return None
    strides = _strides(shape) if _is_contiguous(x) and _of_one_number(x.shape, shape) else None
    return None if strides is None else _seen(x, shape, strides)


def _of_one_number(a: Sequence[Any], b: Sequence[Any]) -> bool:
    """Whether values of two shapes are as many, which their numbers and symbols show."""

    def parted(shape: Sequence[Any]) -> tuple[int, Any]:
        symbols = [n.node.expr for n in shape if type(n) is not int]
        factors = [s.as_coeff_Mul() for s in symbols]
        return (
            prod([n for n in shape if type(n) is int]) * int(prod(f for f, _ in factors)),
            sorted((s for _, s in factors if s != 1), key=str),
        )

    return parted(a) == parted(b)


def _permute(x: Any, axes: Sequence[int]) -> Any:
    rank = len(x.shape)
    places = [a + rank if a < 0 else a for a in axes]
    if sorted(places) != list(range(rank)):
        return None
    strides = x.stride()
    return _seen(x, [x.shape[a] for a in places], [strides[a] for a in places])


def _transpose(x: Any, a: int, b: int) -> Any:
    rank = len(x.shape)
    if not (-rank <= a < rank and -rank <= b < rank):
        return None
    places = list(range(rank))
    places[a], places[b] = places[b], places[a]
    return _permute(x, places)


def _t(x: Any) -> Any:
    return _transpose(x, 0, 1) if len(x.shape) == 2 else None
