"""Scans that ONNX lacks: each result is a reduction over a row of a triangle."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .table import Expansions, Inexpressible

table = Expansions()

_LONGEST = 1024


def _rows(x: Tensor, dim: int, fill: float) -> Tensor:
    """(..., i, j): x[j] where j <= i, else `fill`; the scanned axis is moved to the end."""
    x = x.movedim(dim, -1)
    length = x.shape[-1]
    if not isinstance(length, int) or length > _LONGEST:
        raise Inexpressible(f"its axis is longer than {_LONGEST} or symbolic")
    at = torch.arange(length)
    seen = at.unsqueeze(0) <= at.unsqueeze(1)
    return torch.where(seen, x.unsqueeze(-2), fill)


def _lowest(x: Tensor) -> float:
    return -math.inf if x.dtype.is_floating_point else torch.iinfo(x.dtype).min


def _cumulative_extreme(x: Tensor, dim: int, largest: bool) -> tuple[Tensor, Tensor]:
    if x.dim() == 0:
        return x, torch.zeros_like(x, dtype=torch.int64)
    kind = x.dtype
    x = x.to(torch.int32) if kind == torch.bool else x
    rows = _rows(x if largest else -x, dim, _lowest(x))
    values = rows.amax(-1)
    at = torch.arange(rows.shape[-1])
    where = torch.where((rows == values.unsqueeze(-1)) & (at.unsqueeze(0) <= at.unsqueeze(1)), at, -1).amax(
        -1
    )
    values = values if largest else -values
    return values.movedim(-1, dim).to(kind), where.movedim(-1, dim)


@table.of("aten.cummax.default")
def cummax(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """The largest so far, and where it was last."""
    return _cumulative_extreme(x, dim, True)


@table.of("aten.cummin.default")
def cummin(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """The smallest so far, and where it was last."""
    return _cumulative_extreme(x, dim, False)


@table.of("aten.logcumsumexp.default")
def logcumsumexp(x: Tensor, dim: int) -> Tensor:
    """The logarithm of the running sum of exponentials."""
    if x.dim() == 0:
        return x
    return _rows(x, dim, -math.inf).logsumexp(-1).movedim(-1, dim)


@table.of("aten.cumprod.default")
def cumprod(x: Tensor, dim: int, *, dtype: torch.dtype | None = None) -> Tensor:
    """The running product; torch's own ends in a primitive without a lowering."""
    x = x.to(dtype) if dtype is not None else x if x.dtype.is_floating_point else x.to(torch.int64)
    return x if x.dim() == 0 else _rows(x, dim, 1).prod(-1).movedim(-1, dim)
