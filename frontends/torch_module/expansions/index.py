"""Writes and reads by index that ONNX lacks, by those that it has.

Torch's alone: the writes of the other frameworks are ONNX's own scatters, and what becomes of several
writes to one place has rules of torch's (`include_self`, means). Torch's own end in kernels where nothing
else is said.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from .table import Expansions, Inexpressible

table = Expansions()


def _neutral(x: Tensor, reduce: str) -> float:
    if reduce in ("sum", "mean", "add"):
        return 0
    if reduce in ("prod", "multiply"):
        return 1
    if x.dtype.is_floating_point:
        return -math.inf if reduce == "amax" else math.inf
    limits = torch.iinfo(x.dtype)
    return limits.min if reduce == "amax" else limits.max


@table.op("aten.scatter_reduce.two")
def scatter_reduce(
    x: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """Return a reduction of all that is written to one place."""
    if x.dim() == 0:
        x1, i1, s1 = x.reshape(1), index.reshape(1), src.reshape(1)
        return scatter_reduce(x1, 0, i1, s1, reduce, include_self=include_self).reshape([])
    src = src[tuple(slice(0, n) for n in index.shape)]
    start = x if include_self else torch.scatter(x, dim, index, _neutral(x, reduce))
    if reduce == "mean":
        ones = torch.ones_like(src)
        base = torch.ones_like(x)
        base = base if include_self else torch.scatter(base, dim, index, 0)
        count = torch.clamp(torch.scatter_add(base, dim, index, ones), min=1)
        total = torch.scatter_add(start, dim, index, src)
        return total / count if x.dtype.is_floating_point else torch.div(total, count, rounding_mode="floor")
    if reduce == "sum":
        return torch.scatter_add(start, dim, index, src)
    return _extreme_scatter(start, dim, index, src, reduce)


def _extreme_scatter(x: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str) -> Tensor:
    """Return products and extremes: every source against every place along the axis."""
    x, index, src = (t.movedim(dim, -1) for t in (x, index, src))
    places = torch.arange(x.shape[-1])
    hit = index.unsqueeze(-1) == places  # (..., source, place)
    spread = torch.where(hit, src.unsqueeze(-1), _neutral(x, reduce))
    folded = {"prod": torch.prod, "amax": torch.amax, "amin": torch.amin}[reduce]
    found = folded(spread, -2)
    pads = [p for a in range(found.dim() - 2, -1, -1) for p in (0, x.shape[a] - found.shape[a])]
    if any(pads):
        found = torch.nn.functional.pad(found, (0, 0, *pads), value=_neutral(x, reduce))
    combine = {"prod": torch.mul, "amax": torch.maximum, "amin": torch.minimum}[reduce]
    return combine(x, found).movedim(-1, dim)


@table.op("aten.scatter.reduce")
def scatter_with_reduction(x: Tensor, dim: int, index: Tensor, src: Tensor, *, reduce: str) -> Tensor:
    """Return the older form."""
    return scatter_reduce(x, dim, index, src, "sum" if reduce == "add" else "prod")


@table.op("aten.scatter.value_reduce")
def scatter_value_with_reduction(x: Tensor, dim: int, index: Tensor, value: float, *, reduce: str) -> Tensor:
    """Return the older form, of a number."""
    src = torch.full_like(index, 0).to(x.dtype) + value
    return scatter_reduce(x, dim, index, src.to(x.dtype), "sum" if reduce == "add" else "prod")


@table.op("aten.index_reduce.default")
def index_reduce(
    x: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """Return a reduction of slices that are written to one place."""
    if x.dim() == 0:
        parts = x.reshape(1), 0, index.reshape(-1), source.reshape(-1), reduce
        return index_reduce(*parts, include_self=include_self).reshape([])
    shape = [1] * x.dim()
    shape[dim] = -1
    at = index.reshape(shape).expand(source.shape)
    return scatter_reduce(x, dim, at, source, reduce, include_self=include_self)


@table.op("aten.put.default")
def put(x: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """Return a write into the flattened tensor."""
    flat, at = x.reshape(-1), index.reshape(-1)
    at = torch.where(at < 0, at + flat.shape[0], at)
    src = source.reshape(-1)
    found = torch.scatter_add(flat, 0, at, src) if accumulate else torch.scatter(flat, 0, at, src)
    return found.reshape(x.shape)


@table.op("aten.masked_scatter.default")
def masked_scatter(x: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """Return the source's elements in order, where the mask is true."""
    x, mask = torch.broadcast_tensors(x, mask)
    at = torch.cumsum(mask.reshape(-1).to(torch.int64), 0) - 1
    flat = source.reshape(-1)
    if free_unbacked_symbols(flat.shape[0]):  # of as many elements as data say: none, where the mask has none
        flat = torch.cat([flat, flat.new_zeros(1)])
    return torch.where(mask, flat[torch.clamp(at, min=0)].reshape(x.shape), x)


@table.op("aten._unsafe_masked_index.default")
def unsafe_masked_index(x: Tensor, mask: Tensor, indices: Sequence[Tensor | None], fill: float) -> Tensor:
    """A read that gives a number where the mask is false; torch's own negates the mask first."""
    limited = [None if i is None else torch.clamp(i, 0, x.shape[a] - 1) for a, i in enumerate(indices)]
    return torch.where(mask, torch.ops.aten.index.Tensor(x, limited), fill).to(x.dtype)


@table.op("aten._unsafe_masked_index_put_accumulate.default")
def unsafe_masked_index_put(
    x: Tensor, mask: Tensor, indices: Sequence[Tensor | None], values: Tensor
) -> Tensor:
    """An accumulating write that adds nothing where the mask is false; torch's own negates the mask first."""
    limited = [
        None if i is None else torch.clamp(i, -x.shape[a], x.shape[a] - 1) for a, i in enumerate(indices)
    ]
    return torch.ops.aten.index_put.default(x, limited, torch.where(mask, values, 0).to(x.dtype), True)


def _strided(x: Tensor, size: Sequence[int], stride: Sequence[int], offset: int | None) -> Tensor:
    """Return the places that a strided view of a contiguous tensor has in it."""
    if not all(isinstance(n, int) for n in [*size, *stride, *x.shape]):
        raise Inexpressible("its sizes are symbolic")
    whole = x.untyped_storage().nbytes() == x.numel() * x.element_size()
    if not x.is_contiguous() or not whole or x.storage_offset():
        raise Inexpressible("its tensor is a view itself")
    at = torch.full([1] * len(size), offset or 0, dtype=torch.int64)
    for axis, (n, step) in enumerate(zip(size, stride, strict=True)):
        shape = [1] * len(size)
        shape[axis] = n
        at = at + (torch.arange(n) * step).reshape(shape)
    return at


@table.op("aten.as_strided_scatter.default")
def as_strided_scatter(
    x: Tensor, src: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Tensor:
    """Return a write into a view by strides; torch's own ends in a primitive without a lowering."""
    at = _strided(x, size, stride, storage_offset)
    return torch.scatter(x.reshape(-1), 0, at.reshape(-1), src.reshape(-1)).reshape(x.shape)


@table.op("aten.diagonal_scatter.default")
def diagonal_scatter(x: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """A write into a diagonal; torch's own goes by strides, and ends in a primitive without a lowering."""
    moved = x.movedim((dim1, dim2), (-2, -1))
    rows, columns = moved.shape[-2:]
    first = max(-offset, 0)
    i = torch.arange(rows).unsqueeze(1)
    on = i + offset == torch.arange(columns)
    along = torch.clamp(torch.arange(rows) - first, 0, max(src.shape[-1] - 1, 0))
    if src.shape[-1] == 0:
        return x.clone()
    spread = src[..., along].unsqueeze(-1)
    return torch.where(on, spread, moved).movedim((-2, -1), (dim1, dim2))


@table.op("aten.nonzero_static.default")
def nonzero_static(x: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    """Return the first places that are not zero, as many as asked for."""
    flat = (x != 0).reshape(-1)
    total = flat.shape[0]
    if not isinstance(total, int):
        raise Inexpressible("the size of its input is symbolic")
    if not total:
        return torch.full((size, x.dim()), fill_value)
    at = torch.sort(torch.where(flat, torch.arange(total), total))[0]
    if size > total:
        at = torch.cat([at, torch.full((size - total,), total)])
    at = at[:size]
    columns, rest = [], torch.clamp(at, max=max(total - 1, 0))
    for n in reversed(x.shape):
        columns.append(rest % n)
        rest = torch.div(rest, n, rounding_mode="floor")
    if not columns:
        return torch.full((size, 0), fill_value)
    return torch.where((at == total).unsqueeze(-1), fill_value, torch.stack(columns[::-1], -1))


@table.op("aten.repeat_interleave.self_Tensor", "aten.repeat_interleave.Tensor")
def repeat_interleave(*_arguments: object, **_keywords: object) -> Tensor:
    """Refused: as many rows as the data say."""
    raise Inexpressible("the size of its result depends on data")


@table.op("aten._embedding_bag.default", "aten._embedding_bag_forward_only.default")
def embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Sums, means or largest of the rows of each bag; torch's by-products are given in part."""
    del scale_grad_by_freq, sparse
    starts = offsets[:-1] if include_last_offset else offsets
    at = torch.arange(indices.shape[0])
    bag = (starts.unsqueeze(0) <= at.unsqueeze(1)).sum(1) - 1  # of each index
    member = bag.unsqueeze(0) == torch.arange(starts.shape[0]).unsqueeze(1)  # (bags, indices)
    if padding_idx is not None and padding_idx != -1:
        padding = padding_idx + weight.shape[0] if padding_idx < 0 else padding_idx
        member = member & (indices != padding).unsqueeze(0)
    rows = weight[indices]
    sizes = member.sum(1)
    if mode == 2:
        found = torch.where(member.unsqueeze(2), rows.unsqueeze(0), -math.inf).amax(1)
        found = torch.where((sizes == 0).unsqueeze(1), 0.0, found)
    else:
        rows = rows if per_sample_weights is None else rows * per_sample_weights.unsqueeze(1)
        found = member.to(rows.dtype) @ rows
        if mode == 1:
            found = found / torch.clamp(sizes, min=1).unsqueeze(1).to(rows.dtype)
    return found, bag, sizes, sizes


@table.op("aten.unique_consecutive.default")
def unique_consecutive(
    x: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return runs of equal neighbours once."""
    del return_inverse, return_counts
    if dim is not None and x.dim() != 1:
        raise Inexpressible("it compares slices")
    flat = x.reshape(-1)
    first = torch.cat([torch.ones(1, dtype=torch.bool), flat[1:] != flat[:-1]])
    places = torch.nonzero(first).squeeze(1)
    run = torch.cumsum(first.to(torch.int64), 0) - 1
    ends = torch.cat([places[1:], torch.full((1,), flat.shape[0])])
    return flat[places], run.reshape(x.shape), ends - places


@table.op("aten._weight_norm.default")
def weight_norm(v: Tensor, g: Tensor, dim: int = 0) -> Tensor:
    """Return every slice along an axis, or with -1 all of it, brought to the norms given.

    Torch's own swaps and flattens axes to get at the norms.
    """
    others = [a for a in range(v.dim()) if dim == -1 or a != dim]
    norm = torch.linalg.vector_norm(v, 2, others, keepdim=True) if others else v.abs()
    return v * (g / norm)
