"""Computes exact sums where torch's kernels of quantised layers saturate theirs.

Kernels for processors without VNNI add two products of bytes in 16 bits. Sums of inputs up to 127 fit; those
of inputs that use the whole byte (a tanh's, whose scale is fixed, or larger ones than were observed) may not.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from ..refusals import WrongKernelError
from .functions import OPERATORS
from .packed import is_packed
from .readings import Readings, is_quantised_tensor

_KINDS = ("conv", "linear")
_MOST = 2**15 - 1  # the largest number of 16 bits
_NARROW = 127  # the largest input of which no kernel saturates sums

_TRANSPOSED = "transpose"
_FAR = 4  # steps from a layer's own result beyond which a kernel gives something else

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

    Raises:
        WrongKernelError: for a transposed convolution whose kernel gives something else on such inputs.
    """
    readings, sizes = Readings(), dict[int, int]()

    def largest_of(packed: Any) -> int:
        weights = readings.weights(packed)
        if id(weights) not in sizes:
            codes = weights.codes()
            sizes[id(weights)] = 0 if codes.is_floating_point() else int(codes.to(torch.int32).abs().max())
        return sizes[id(weights)]

    class Exact(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            named = kwargs or {}
            result = func(*args, **named)
            name = getattr(func, "_qualified_op_name", "").removeprefix("quantized::")
            if not (name.startswith(_KINDS) and name in OPERATORS and is_quantised_tensor(result)):
                return result
            x, *rest = args
            largest = next(largest_of(value) for value in rest if is_packed(value))
            saturates = x.numel() and int(x.int_repr().max()) * 2 * largest > _MOST
            if not saturates and _TRANSPOSED not in name:
                return result

            def read_as(x: Tensor) -> Tensor:
                return OPERATORS[name](*map(readings.read, (x, *rest)), **named).codes

            wanted = read_as(x)
            differs = _steps(result, wanted)
            if not differs.any():
                return result
            narrow = _in_scale_of(x, x.int_repr().clamp(max=_NARROW))
            before = _steps(func(narrow, *rest, **named), read_as(narrow))
            if before.max() > _FAR and _TRANSPOSED in name:
                packed = next(value for value in rest if is_packed(value))
                raise WrongKernelError(packed, name, int(differs.max()))
            usual = int(int(before.count_nonzero()) > 1 + before.numel() // _SHARE)
            if not saturates or before.max() > 1 or not (differs > usual).any():
                return result
            saturated.add(name)
            return _in_scale_of(result, torch.where(differs > usual, wanted, result.int_repr()))

    with Exact():
        yield


def _steps(result: Tensor, wanted: Tensor) -> Tensor:
    """Return how far integers are from those of a quantised tensor."""
    return (result.int_repr().to(torch.int32) - wanted).abs()


def _in_scale_of(like: Tensor, codes: Tensor) -> Tensor:
    """Return integers as a quantised tensor in the scale of another."""
    make: Any = torch._make_per_tensor_quantized_tensor  # type: ignore[attr-defined]
    return make(codes, like.q_scale(), like.q_zero_point())
