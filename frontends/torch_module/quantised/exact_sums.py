"""Computes exact sums where torch's kernels of quantised layers saturate theirs.

Kernels for processors without VNNI add two products of bytes in 16 bits. Sums of inputs up to 127 fit; those
of inputs that use the whole byte (a tanh's, whose scale is fixed, or larger ones than were observed) may not.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from .functions import OPERATORS
from .packed import Packed, is_packed, unpacked
from .stand_in import Quantised, scale_of

_KINDS = ("conv", "linear")
_MOST = 2**15 - 1  # the largest number of 16 bits
_NARROW = 127  # the largest input of which no kernel saturates sums

_SHARE = 2000
"""One float in so many may lie in the middle of two codes, between which its rounding decides."""


@contextmanager
def exact_sums(saturated: set[str]) -> Iterator[None]:
    """Correct quantised convolutions and products inside, where kernels saturate sums.

    An element that is off is taken from the floats as which the layer is read, if kernel and floats agree on
    the same inputs limited to those of which no kernel saturates sums; of a kernel that often rounds to
    another code there, only if it is off by more than a step.

    Args:
        saturated: gets the names of the operators that were corrected.
    """
    known: dict[int, _Weights] = {}

    def weights_of(given: Any) -> _Weights:
        if id(given) not in known:
            found = unpacked(given)
            codes = found.codes()
            largest = 0 if codes.is_floating_point() else int(codes.to(torch.int32).abs().max())
            known[id(given)] = _Weights(given, found, largest)
        return known[id(given)]

    def read(value: Any) -> Any:
        if is_packed(value):
            return weights_of(value).unpacked
        return Quantised(value.int_repr(), scale_of(value)) if _is_quantised(value) else value

    class Exact(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            named = kwargs or {}
            result = func(*args, **named)
            name = getattr(func, "_qualified_op_name", "").removeprefix("quantized::")
            if not (name.startswith(_KINDS) and name in OPERATORS and _is_quantised(result)):
                return result
            x, *rest = args
            largest = next(weights_of(value).largest for value in rest if is_packed(value))
            if not x.numel() or int(x.int_repr().max()) * 2 * largest <= _MOST:
                return result

            def read_as(x: Tensor) -> Tensor:
                return OPERATORS[name](*map(read, (x, *rest)), **named).codes

            wanted = read_as(x)
            differs = _steps(result, wanted)
            if not differs.any():
                return result
            narrow = _in_scale_of(x, x.int_repr().clamp(max=_NARROW))
            before = _steps(func(narrow, *rest, **named), read_as(narrow))
            usual = int(int(before.count_nonzero()) > 1 + before.numel() // _SHARE)
            if before.max() > 1 or not (differs > usual).any():
                return result
            saturated.add(name)
            return _in_scale_of(result, torch.where(differs > usual, wanted, result.int_repr()))

    with Exact():
        yield


class _Weights(NamedTuple):
    """Packed weights, and what is needed of them.

    Attributes:
        packed: the weights, which are to live as long as their entry.
        unpacked: the same, unpacked.
        largest: the largest absolute value of their integers; 0 of floats.
    """

    packed: Any
    unpacked: Packed
    largest: int


def _is_quantised(value: object) -> bool:
    return isinstance(value, Tensor) and value.is_quantized


def _steps(result: Tensor, wanted: Tensor) -> Tensor:
    """Return how far integers are from those of a quantised tensor."""
    return (result.int_repr().to(torch.int32) - wanted).abs()


def _in_scale_of(like: Tensor, codes: Tensor) -> Tensor:
    """Return integers as a quantised tensor in the scale of another."""
    make: Any = torch._make_per_tensor_quantized_tensor  # type: ignore[attr-defined]
    return make(codes, like.q_scale(), like.q_zero_point())
