"""Pools over the bins of regions, whose bounds are whole pixels: torchvision's own operators.

Torch's alone: MXNet's `ROIPooling`, which has other bounds, is written out by its own frontend. torchvision
has kernels for these and no decomposition.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .table import Expansions

table = Expansions()


def _rounded(x: Tensor) -> Tensor:
    """Round halves away from zero, as C does."""
    whole = torch.trunc(x)
    return whole + torch.sign(x) * ((x - whole).abs() >= 0.5).to(x.dtype)


def _bins(low: Tensor, high: Tensor, *, added: int, count: int, end: int) -> tuple[Tensor, Tensor]:
    """Return the first place of every bin of every region, and the one behind its last: (regions, bins)."""
    size = (torch.clamp(high - low + added, min=1) / count).unsqueeze(1)
    number = torch.arange(count).to(low.dtype)
    first, behind = torch.floor(number * size), torch.ceil((number + 1) * size)
    return tuple(torch.clamp(at + low.unsqueeze(1), 0, end) for at in (first, behind))  # type: ignore[return-value]


def _inside(bins: tuple[Tensor, Tensor], size: int) -> Tensor:
    """Whether a place is in a bin: (regions, bins, places)."""
    at = torch.arange(size)
    return (at >= bins[0].unsqueeze(2)) & (at < bins[1].unsqueeze(2))


@table.op("torchvision.roi_pool.default")
def roi_pool(
    x: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int
) -> tuple[Tensor, Tensor]:
    """The largest of each bin of each region, 0 where it is empty, and its place in the image, -1 there."""
    height, width = x.shape[2:]
    left, top, right, bottom = (_rounded(rois[:, n] * spatial_scale) for n in range(1, 5))
    rows = _inside(_bins(top, bottom, added=1, count=pooled_height, end=height), height)
    columns = _inside(_bins(left, right, added=1, count=pooled_width, end=width), width)
    images = x[rois[:, 0].long()]  # (regions, channels, height, width)
    least = torch.finfo(x.dtype).min
    across = [torch.where(columns[:, n, None, None], images, least) for n in range(pooled_width)]
    largest = torch.stack([part.amax(3) for part in across], 3)  # (regions, channels, height, bins)
    column = torch.stack([part.argmax(3) for part in across], 3)
    values, places = [], []
    for n in range(pooled_height):
        within = torch.where(rows[:, n, None, :, None], largest, least)
        row = within.argmax(2, keepdim=True)
        values.append(within.amax(2))
        places.append((row * width + column.gather(2, row)).squeeze(2))
    empty = ~(rows.any(2).unsqueeze(2) & columns.any(2).unsqueeze(1)).unsqueeze(1)
    found = torch.where(empty, 0.0, torch.stack(values, 2))
    return found, torch.where(empty, -1, torch.stack(places, 2)).to(torch.int32)


@table.op("torchvision.ps_roi_pool.default")
def position_sensitive_roi_pool(
    x: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int
) -> tuple[Tensor, Tensor]:
    """Return the mean of each bin of each region, from channels of its own, and the number of its channel.

    Bins end before the last row and the last column of the image, as torchvision's do.
    """
    (count, channels), (height, width) = (rois.shape[0], x.shape[1]), x.shape[2:]
    bins = pooled_height, pooled_width
    left, top, right, bottom = (_rounded(rois[:, n] * spatial_scale) for n in range(1, 5))
    down = _bins(top, bottom, added=0, count=pooled_height, end=height - 1)
    across = _bins(left, right, added=0, count=pooled_width, end=width - 1)
    own = x.reshape(x.shape[0], -1, *bins, height, width)[rois[:, 0].long()]
    kept = torch.where(_inside(across, width)[:, None, None, :, None, :], own, 0.0).sum(5)
    sums = torch.where(_inside(down, height)[:, None, :, None, :], kept, 0.0).sum(4)
    area = (down[1] - down[0]).unsqueeze(2) * (across[1] - across[0]).unsqueeze(1)
    full = ((down[1] > down[0]).unsqueeze(2) & (across[1] > across[0]).unsqueeze(1)).unsqueeze(1)
    found = torch.where(full, sums / torch.where(full, area.unsqueeze(1), 1.0), 0.0)
    numbers = torch.arange(channels).reshape(1, -1, *bins).expand(count, -1, -1, -1)
    return found, numbers.to(torch.int32)
