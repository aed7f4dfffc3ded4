"""Pools over random windows.

Torch's alone: they are where torch's formula puts them.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .table import Expansions, Inexpressible

table = Expansions()


def _windows(tables: Sequence[Tensor], sizes: Sequence[int]) -> Tensor:
    """Flat places of every window: (..., outputs, window) of each axis -> (..., all outputs, window)."""
    flat = tables[0]
    for at, size in zip(tables[1:], sizes[1:], strict=True):
        outer = flat.unsqueeze(-2).unsqueeze(-1) * size  # (..., outputs, 1, window, 1)
        inner = at.unsqueeze(-3).unsqueeze(-2)  # (..., 1, outputs, 1, window)
        both = outer + inner
        lead = both.shape[:-4]
        flat = both.reshape(*lead, both.shape[-4] * both.shape[-3], both.shape[-2] * both.shape[-1])
    return flat


def _static(x: Tensor, rank: int) -> list[int]:
    sizes = list(x.shape[-rank:])
    if not all(isinstance(s, int) for s in sizes):
        raise Inexpressible("its spatial sizes are symbolic")
    return sizes


def _largest(x: Tensor, places: Tensor, output: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Return the largest of every window and its flat place, the first of several."""
    rank = len(output)
    flat = x.flatten(-rank)
    spread = places.reshape(*places.shape[:-2], -1)
    windows = flat.gather(-1, spread).reshape(places.shape)
    at = windows.argmax(-1, keepdim=True)
    values = windows.amax(-1).reshape(*x.shape[:-rank], *output)
    return values, places.gather(-1, at).squeeze(-1).reshape(*x.shape[:-rank], *output)


def _fractional(
    x: Tensor, kernel: Sequence[int], output: Sequence[int], samples: Tensor
) -> tuple[Tensor, Tensor]:
    """Windows start where torch's formula puts them, by a random sample of each plane and axis."""
    rank = len(kernel)
    sizes = _static(x, rank)
    samples = samples if x.dim() == rank + 2 else samples[0]
    tables = []
    for axis, (size, k, out) in enumerate(zip(sizes, kernel, output, strict=True)):
        # torch fills the last axis from the first sample in two dimensions and in three
        sample = samples[..., rank - 1 - axis] if rank == 2 else samples[..., axis]
        i = torch.arange(out)
        last = torch.zeros_like(i) + (size - k)
        if out > 1:
            alpha = (size - k) / (out - 1)
            exact = sample.unsqueeze(-1)
            start = (((i + exact) * alpha).to(torch.int64)) - (exact * alpha).to(torch.int64)
            start = torch.where(i == out - 1, last, start)
        else:
            start = last.expand(*sample.shape, out)
        tables.append(start.unsqueeze(-1) + torch.arange(k))
    return _largest(x, _windows(tables, sizes), output)


@table.op("aten.fractional_max_pool2d.default")
def fractional_max_pool2d(
    x: Tensor, kernel_size: Sequence[int], output_size: Sequence[int], random_samples: Tensor
) -> tuple[Tensor, Tensor]:
    """Return values and places of fractional pooling in two dimensions."""
    return _fractional(x, kernel_size, output_size, random_samples)


@table.op("aten.fractional_max_pool3d.default")
def fractional_max_pool3d(
    x: Tensor, kernel_size: Sequence[int], output_size: Sequence[int], random_samples: Tensor
) -> tuple[Tensor, Tensor]:
    """Return values and places of fractional pooling in three dimensions."""
    return _fractional(x, kernel_size, output_size, random_samples)
