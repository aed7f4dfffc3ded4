"""Modes, quantiles, bins and runs, by sorting and by comparing all with all.

Torch's alone: MindSpore's `Quantile` has no kernel for CPUs that it could be compared with, and of MXNet's
operators only `histogram`, which is not read, is like these. Torch's own end in kernels, look at data, or
take more operators, as each says.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from .table import Expansions, Inexpressible

table = Expansions()


def _sorted(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    return torch.sort(x, dim=dim, stable=True)


@table.op("aten.mode.default")
def mode(x: Tensor, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """Return the most frequent value, the smallest of several, and where it is last."""
    if x.dim() == 0:
        return x, torch.zeros_like(x, dtype=torch.int64)
    moved = x.movedim(dim, -1)
    ordered, _ = _sorted(moved, -1)
    counts = (ordered.unsqueeze(-1) == ordered.unsqueeze(-2)).sum(-1)
    value = ordered.gather(-1, counts.argmax(-1, keepdim=True))
    last = torch.where(moved == value, torch.arange(moved.shape[-1]), -1).amax(-1, keepdim=True)
    value, last = value.movedim(-1, dim), last.movedim(-1, dim)
    return (value, last) if keepdim else (value.squeeze(dim), last.squeeze(dim))


def _quantile(x: Tensor, q: Tensor, dim: int | None, keepdim: bool, how: str, ignore_nan: bool) -> Tensor:
    flat = dim is None
    rank = x.dim()
    moved = x.reshape(-1) if dim is None else x.movedim(dim, -1)
    undefined = torch.isnan(moved)
    ordered, _ = _sorted(torch.where(undefined, math.inf, moved), -1)
    count = (~undefined).sum(-1, keepdim=True)
    points = q.reshape(-1)
    last = (count - 1 if ignore_nan else torch.zeros_like(count) + (moved.shape[-1] - 1)).to(x.dtype)
    where = points * last
    below, above = torch.floor(where), torch.ceil(where)
    low = ordered.gather(-1, torch.clamp(below, min=0).long())
    high = ordered.gather(-1, torch.clamp(above, min=0).long())
    if how == "lower":
        found = low
    elif how == "higher":
        found = high
    elif how == "nearest":
        found = ordered.gather(-1, torch.clamp(torch.round(where), min=0).long())
    else:
        weight = 0.5 if how == "midpoint" else where - below
        found = torch.where(low == high, low, low + (high - low) * weight)
    missing = count == 0 if ignore_nan else undefined.any(-1, keepdim=True)
    found = torch.where(missing, math.nan, found)
    found = found.movedim(-1, 0)  # (points, the other axes)
    if keepdim:
        found = found.reshape([found.shape[0]] + [1] * rank) if flat else found.unsqueeze(1 + dim % rank)
    return found if q.dim() else found.squeeze(0)


@table.op("aten.quantile.default")
def quantile(
    x: Tensor, q: Tensor, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """Quantiles by any of torch's five interpolations; torch's own looks at the data of q."""
    return _quantile(x, q, dim, keepdim, interpolation, False)


@table.op("aten.nanquantile.default")
def nanquantile(
    x: Tensor, q: Tensor, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """Quantiles of what is defined; torch's own looks at the data of q."""
    return _quantile(x, q, dim, keepdim, interpolation, True)


@table.op("aten.isin.Tensor_Tensor")
def isin(elements: Tensor, among: Tensor, *, assume_unique: bool = False, invert: bool = False) -> Tensor:
    """Whether each element is among others; torch's own sorts where those are many."""
    del assume_unique
    found = (elements.unsqueeze(-1) == among.reshape(-1)).any(-1)
    return ~found if invert else found


@table.op("aten.histc.default")
def histc(x: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:  # noqa: A002 - torch's names
    """Return counts in equal bins; the range is that of the data where none is given."""
    x = x.reshape(-1)
    low, high = torch.full((), min, dtype=x.dtype), torch.full((), max, dtype=x.dtype)
    if min == max:
        low, high = x.amin(), x.amax()
        single = low == high
        low, high = torch.where(single, low - 1, low), torch.where(single, high + 1, high)
    place = torch.clamp(torch.floor((x - low) * bins / (high - low)), max=bins - 1)
    inside = (x >= low) & (x <= high)
    hit = (place.unsqueeze(-1) == torch.arange(bins)) & inside.unsqueeze(-1)
    return hit.sum(0).to(x.dtype)


def _hits(x: Tensor, edges: Tensor) -> Tensor:
    """(number, bin): whether it is in there; the last bin holds its right edge."""
    bins = edges.shape[0] - 1
    place = (edges.unsqueeze(0) <= x.unsqueeze(1)).sum(1) - 1
    place = torch.where(x == edges[-1], bins - 1, place)
    return place.unsqueeze(1) == torch.arange(bins)


def _histogram(x: Tensor, edges: Tensor, weight: Tensor | None, density: bool) -> Tensor:
    """Return sums of weights between edges."""
    x = x.reshape(-1)
    weights = torch.ones_like(x) if weight is None else weight.reshape(-1)
    found = torch.where(_hits(x, edges), weights.unsqueeze(1), 0.0).sum(0)
    return found / (found.sum() * (edges[1:] - edges[:-1])) if density else found


@table.op("aten.histogram.bins_tensor")
def histogram(
    x: Tensor, bins: Tensor, *, weight: Tensor | None = None, density: bool = False
) -> tuple[Tensor, Tensor]:
    """Return counts between given edges."""
    return _histogram(x, bins, weight, density), bins


@table.op("aten.histogram.bin_ct")
def histogram_of_equal_bins(
    x: Tensor,
    bins: int = 100,
    *,
    range: list[float] | None = None,  # noqa: A002 - torch's name
    weight: Tensor | None = None,
    density: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return counts in equal bins over a range, or that of the data."""
    edges = _equal_edges(x, bins, range)
    return _histogram(x, edges, weight, density), edges


def _equal_edges(x: Tensor, bins: int, ends: list[float] | None) -> Tensor:
    if ends is None:
        low, high = x.amin(), x.amax()
        single = low == high
        low, high = torch.where(single, low - 0.5, low), torch.where(single, high + 0.5, high)
    else:
        low, high = (torch.full((), v, dtype=x.dtype) for v in ends)
    at = torch.arange(bins + 1).to(x.dtype)
    step = (high - low) / bins
    return torch.where(at < bins / 2, low + step * at, high - step * (bins - at))


@table.op("aten.histogramdd.default", "aten.histogramdd.int_bins", "aten.histogramdd.TensorList_bins")
def histogramdd(
    x: Tensor,
    bins: Sequence[int | Tensor] | int,
    range: list[float] | None = None,  # noqa: A002 - torch's name
    weight: Tensor | None = None,
    density: bool = False,
) -> tuple[Tensor, list[Tensor]]:
    """Return counts of points in boxes: every point's share of the boxes along the axes before, axis by axis.

    Torch's own ends in kernels.
    """
    points = x.reshape(-1, x.shape[-1])
    given = [bins] * x.shape[-1] if isinstance(bins, int) else list(bins)
    edges = [
        b if isinstance(b, Tensor) else _equal_edges(points[:, d], b, range and range[2 * d : 2 * d + 2])
        for d, b in enumerate(given)
    ]
    shares = (torch.ones_like(points[:, 0]) if weight is None else weight.reshape(-1)).unsqueeze(1)
    for d, ends in enumerate(edges):
        hits = _hits(points[:, d], ends).to(x.dtype)
        shares = (shares.unsqueeze(2) * hits.unsqueeze(1)).flatten(1)
    found = shares.sum(0).reshape([ends.shape[0] - 1 for ends in edges])
    if density:
        found = found / found.sum()
        for d, ends in enumerate(edges):
            found = found / (ends[1:] - ends[:-1]).reshape([-1] + [1] * (len(edges) - 1 - d))
    return found, edges


@table.op("aten.segment_reduce.default")
def segment_reduce(
    data: Tensor,
    reduce: str,
    *,
    lengths: Tensor | None = None,
    indices: Tensor | None = None,
    offsets: Tensor | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: float | None = None,
) -> Tensor:
    """Reduce runs of the first axis."""
    del unsafe
    counts = offsets if lengths is None else lengths
    if counts is None or indices is not None or axis or counts.dim() != 1:
        raise Inexpressible("its segments are not runs of the first axis")
    starts = counts[:-1] if lengths is None else torch.cumsum(counts, 0) - counts
    ends = counts[1:] if lengths is None else torch.cumsum(counts, 0)
    at = torch.arange(data.shape[0])
    member = (at >= starts.unsqueeze(1)) & (at < ends.unsqueeze(1))  # (segments, rows)
    member = member.reshape([*member.shape] + [1] * (data.dim() - 1))
    neutral = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "max": -math.inf, "min": math.inf}[reduce]
    start = neutral if initial is None else initial
    rows = torch.where(member, data.unsqueeze(0), neutral)
    if reduce == "prod":
        return rows.prod(1) * start
    if reduce == "max":
        return torch.clamp(rows.amax(1), min=start)
    if reduce == "min":
        return torch.clamp(rows.amin(1), max=start)
    total = rows.sum(1) + start
    if reduce == "sum":
        return total
    number = (ends - starts).reshape([-1] + [1] * (data.dim() - 1)).to(data.dtype)
    return torch.where(number > 0, total / number, math.nan if initial is None else start)
