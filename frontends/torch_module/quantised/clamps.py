"""Corrects torch's clamps of quantised tensors in QNNPACK, which mix up elements that lie in another order.

The kernel gives its result in the order of a contiguous tensor, whatever the order of its operand: behind a
convolution, whose result keeps its channels last in memory, the elements of all channels are exchanged.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

_CLAMPS = frozenset({"clamp", "clamp_", "hardtanh", "hardtanh_", "relu6"})


@contextmanager
def clamps_in_order(mixed: set[str]) -> Iterator[None]:
    """Clamp quantised tensors inside as the same elements in a contiguous tensor.

    Args:
        mixed: gets the names of the functions whose results were others.
    """

    class InOrder(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            named = kwargs or {}
            name = getattr(func, "__name__", "").partition(".")[0]
            x = args[0] if args else None
            if name not in _CLAMPS or not isinstance(x, Tensor) or not x.is_quantized or x.is_contiguous():
                return func(*args, **named)
            in_order = x.contiguous()
            result = func(*args, **named)
            wanted = func(in_order, *args[1:], **named)
            if torch.equal(result.int_repr(), wanted.int_repr()):
                return result
            mixed.add(name)
            return x.copy_(wanted) if result is x else wanted

    with InOrder():
        yield
