"""Adds rounding errors that other runtimes have and torch's own arithmetic does not."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from ...frontends.torch_module.export.tensors import array_of, tensor_of
from .runs import KernelErrors

_PROBE = 0.75
"""A number that measures a change; not an integer, which the change would leave alone."""

_TERMS = 1000
"""Most terms of a sum whose error does not depend on their number."""


def round_inside(
    change: Callable[[np.ndarray], np.ndarray], errors: KernelErrors | None = None
) -> AbstractContextManager[object]:
    """Return a with block in which an ELU is off by what `change` does to half of its alpha.

    Other runtimes compute it as `exp(x) - 1`, which is off by half a unit in the last place of 1 (5.6e-8 in
    ONNX Runtime) however small the result; torch uses `expm1`, which is not.

    Args:
        change: what rounds a weight.
        errors: of float32 kernels that are coarse in the other runtime; all elements are off one way, as
            equal elements are there.
    """
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    aten = torch.ops.aten
    sums = 0

    def find_units(count: int) -> Any:
        """Return a unit for each result of the next sum, with signs of its own: they must not cancel."""
        nonlocal sums
        sums += 1
        probe = np.full(count + sums, _PROBE, np.float32)
        return tensor_of(((change(probe) - probe) / _PROBE)[:count])

    class Rounded(TorchDispatchMode):
        supports_higher_order_operators = True

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            given = kwargs or {}
            out = func(*args, **given)
            coarse = (errors or {}).get(str(func.overloadpacket).rstrip("_"))
            if coarse is not None and isinstance(out, torch.Tensor) and out.dtype == torch.float32:
                unit = float(change(np.full((), _PROBE, np.float32)) - np.float32(_PROBE)) / _PROBE
                with torch.no_grad():
                    off = out * (unit * coarse.relative) + unit * coarse.absolute
                    if coarse.scaled:
                        off += _reach(args[0], out) * (unit * coarse.scaled)
                    if coarse.summed and out.numel():
                        sizes = func(args[0].abs(), *args[1:], **given)
                        longer = max(args[0].numel() / out.numel() / _TERMS, 1.0) ** 0.5
                        off += sizes * find_units(out.numel()).view(out.shape) * (coarse.summed * longer)
                    return out.add_(torch.where(out.isfinite(), off, 0.0))
            if func not in (aten.elu.default, aten.elu_.default):
                return out
            alpha, scale = (*args[1:3], 1.0, 1.0)[:2]
            probe = np.full(tuple(out.shape), _PROBE, array_of(out).dtype)
            off = tensor_of((change(probe) - probe) / _PROBE).to(out.dtype)
            below = out < 0
            return out.add_(torch.where(below, off * (0.5 * abs(alpha * scale)), torch.zeros_like(off)))

    return Rounded()


def _reach(operand: Any, out: Any) -> Any:
    """Return the size of each element of an operand; that of the largest where its shape is another."""
    sizes = operand.abs().nan_to_num(0.0, 0.0)
    return sizes if operand.shape == out.shape or not sizes.numel() else sizes.max()


def is_alterable(tensor: Any) -> bool:
    """Whether a tensor holds floating-point numbers of its own, each at one place."""
    import torch

    if not (tensor.is_floating_point() or tensor.is_complex()) or tensor.is_meta:
        return False
    if tensor.element_size() == 1:  # a step between two such numbers is no rounding error
        return False
    return tensor.layout == torch.strided and all(
        step or size < 2 for step, size in zip(tensor.stride(), tensor.shape, strict=True)
    )
