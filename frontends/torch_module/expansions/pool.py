"""Pools over irregular windows, and unpooling.

Torch's alone: places count within a plane, and random windows are where torch's formula puts them. Torch's
own adaptive pools cannot be traced; that along one axis goes by way of two, in twice as many operators.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

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
    """The largest of every window and its flat place, the first of several."""
    rank = len(output)
    flat = x.flatten(-rank)
    if places.dim() == 2:
        windows = flat[..., places]
        places = places.expand(windows.shape)
    else:  # tables of each plane
        spread = places.reshape(*places.shape[:-2], -1)
        windows = flat.gather(-1, spread).reshape(places.shape)
    at = windows.argmax(-1, keepdim=True)
    values = windows.amax(-1).reshape(*x.shape[:-rank], *output)
    return values, places.gather(-1, at).squeeze(-1).reshape(*x.shape[:-rank], *output)


def _adaptive(x: Tensor, output: Sequence[int]) -> tuple[Tensor, Tensor]:
    sizes = _static(x, len(output))
    tables = []
    for size, out in zip(sizes, output, strict=True):
        starts = [i * size // out for i in range(out)]
        ends = [math.ceil((i + 1) * size / out) for i in range(out)]
        longest = max((e - s for s, e in zip(starts, ends, strict=True)), default=1)
        i = torch.arange(out)
        start = torch.div(i * size, out, rounding_mode="floor")
        end = torch.div((i + 1) * size + (out - 1), out, rounding_mode="floor")
        at = start.unsqueeze(1) + torch.arange(longest).unsqueeze(0)
        tables.append(
            torch.minimum(at, end.unsqueeze(1) - 1)
        )  # the last one again, where a window is shorter
    return _largest(x, _windows(tables, sizes), output)


def _adaptive_max_pool(rank: int) -> Callable[..., tuple[Tensor, Tensor]]:
    def adaptive_max_pool(x: Tensor, output_size: Sequence[int]) -> tuple[Tensor, Tensor]:
        output = [output_size] if isinstance(output_size, int) else list(output_size)
        return _adaptive(x, output * rank if len(output) == 1 else output)

    return adaptive_max_pool


for _rank in (1, 2, 3):
    table.of(f"aten.adaptive_max_pool{_rank}d.default")(_adaptive_max_pool(_rank))


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


@table.of("aten.fractional_max_pool2d.default")
def fractional_max_pool2d(
    x: Tensor, kernel_size: Sequence[int], output_size: Sequence[int], random_samples: Tensor
) -> tuple[Tensor, Tensor]:
    """Values and places of fractional pooling in two dimensions."""
    return _fractional(x, kernel_size, output_size, random_samples)


@table.of("aten.fractional_max_pool3d.default")
def fractional_max_pool3d(
    x: Tensor, kernel_size: Sequence[int], output_size: Sequence[int], random_samples: Tensor
) -> tuple[Tensor, Tensor]:
    """Values and places of fractional pooling in three dimensions."""
    return _fractional(x, kernel_size, output_size, random_samples)


def _unpooled(x: Tensor, indices: Tensor, output: Sequence[int]) -> Tensor:
    rank = len(output)
    lead = list(x.shape[:-rank])
    empty = torch.zeros([*lead, math.prod(output)], dtype=x.dtype)
    found = torch.scatter(empty, -1, indices.flatten(-rank), x.flatten(-rank))
    return found.reshape([*lead, *output])


@table.of("aten.max_unpool2d.default")
def max_unpool2d(x: Tensor, indices: Tensor, output_size: Sequence[int]) -> Tensor:
    """Values back to where they were; torch's own takes twice as many operators."""
    return _unpooled(x, indices, output_size)


@table.of("aten.max_unpool3d.default")
def max_unpool3d(
    x: Tensor, indices: Tensor, output_size: Sequence[int], stride: Sequence[int], padding: Sequence[int]
) -> Tensor:
    """Values back to where they were; torch's own takes twice as many operators."""
    del stride, padding
    return _unpooled(x, indices, output_size)
