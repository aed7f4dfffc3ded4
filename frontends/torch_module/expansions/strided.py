"""Views by strides of a tensor whose elements fill its memory, by look-ups along its axes; its diagonal.

Torch's alone: no other framework shows how its tensors lie in memory. Torch's own end in kernels, or write
in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import sympy
import torch
from torch import Tensor

from .table import Expansions, Inexpressible

table = Expansions()


@dataclass
class _Axis:
    """An axis of the memory.

    Attributes:
        size: how many places it has.
        stride: how many elements lie between two of them.
        reads: (axis of the result, its size, how many places it goes on in one step).
        start: its place of the result's first element.
    """

    size: Any
    stride: Any
    reads: list[tuple[int, Any, int]] = field(default_factory=list)
    start: int = 0

    def last(self) -> int | None:
        """Return the furthest place that is read, or None where it is symbolic."""
        if not all(isinstance(n, int) for _, n, _ in self.reads):
            return None
        return self.start + sum((n - 1) * step for _, n, step in self.reads)


@table.op("aten.as_strided.default")
def as_strided(
    x: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Tensor:
    """Return a view by strides: one look-up along each axis of the memory."""
    order, axes = _memory(x)
    left = storage_offset or 0
    if left and not all(isinstance(a.stride, int) for a in axes):
        raise Inexpressible("its offset is in a memory of symbolic size")
    for axis in axes if left else ():
        axis.start, left = divmod(left, axis.stride)
    still: list[int] = []
    for at, (n, step) in enumerate(zip(size, stride, strict=True)):
        if (isinstance(step, int) and step == 0) or (isinstance(n, int) and n == 1):
            still.append(at)
            continue
        axis, times = _axis_of(axes, step)
        axis.reads.append((at, n, times))
    axes = _merged(axes)
    y = x.permute(order).reshape([a.size for a in axes])
    placed: list[int] = []
    for axis in axes:
        y = _read(y, len(placed), axis)
        placed += [at for at, _, _ in axis.reads]
    for _ in still:
        y = y.unsqueeze(-1)
    placed += still
    y = y.permute([placed.index(at) for at in range(len(size))])
    return y.expand(list(size)) if any(_differ(a, b) for a, b in zip(y.shape, size, strict=True)) else y


@table.op("aten.fill_diagonal_.default")
def fill_diagonal(x: Tensor, fill_value: float, wrap: bool = False) -> Tensor:
    """Return the tensor with a number wherever all indices are equal; torch's own writes in place."""
    if wrap and x.dim() == 2 and x.shape[0] > x.shape[1] + 1:
        raise Inexpressible("the diagonal goes on below the square")
    ranges = [torch.arange(size).reshape([-1] + [1] * (x.dim() - 1 - at)) for at, size in enumerate(x.shape)]
    on_it = torch.ones((), dtype=torch.bool)
    for axis in ranges[1:]:
        on_it = on_it & (ranges[0] == axis)
    return torch.where(on_it, torch.full_like(x, fill_value), x)


def _memory(x: Tensor) -> tuple[list[int], list[_Axis]]:
    """Return the axes in the order of memory, and those of more than one place.

    Raises:
        Inexpressible: when the elements do not fill the memory, or this depends on symbolic sizes.
    """
    order = sorted(range(x.dim()), key=lambda a: (_hint(x.stride(a)), _hint(x.shape[a])), reverse=True)
    axes = [
        _Axis(x.shape[a], x.stride(a)) for a in order if not (isinstance(x.shape[a], int) and x.shape[a] == 1)
    ]
    expected: Any = 1
    for axis in reversed(axes):
        if _differ(axis.stride, expected):
            raise Inexpressible("its tensor is a view that leaves out elements of its memory")
        expected = expected * axis.size
    if _differ(x.untyped_storage().nbytes(), expected * x.element_size()) or x.storage_offset():
        raise Inexpressible("its tensor is a view of a part of its memory")
    return order, axes or [_Axis(1, 1)]


def _axis_of(axes: Sequence[_Axis], step: Any) -> tuple[_Axis, int]:
    """Return the widest axis on which a step is a whole number of places, and that number."""
    for axis in axes:
        ratio = sympy.cancel(_expression(step) / _expression(axis.stride))
        if ratio.is_Integer and ratio > 0:
            return axis, int(ratio)
    raise Inexpressible("one of its steps is along no axis of the memory")


def _merged(axes: Sequence[_Axis]) -> list[_Axis]:
    """The axes, one in place of two where reads of the narrower go on in the next place of the wider."""
    found: list[_Axis] = []
    for axis in axes:
        last, above = axis.last(), found[-1] if found else None
        whole = (
            [n for _, n, step in axis.reads if step == 1] if len(axis.reads) == 1 and not axis.start else []
        )
        inside = bool(whole) and not _differ(whole[0], axis.size)
        inside = inside or (last is not None and isinstance(axis.size, int) and last < axis.size)
        if inside or above is None:
            found.append(axis)
            continue
        if not isinstance(axis.size, int):
            raise Inexpressible("its steps leave an axis of symbolic size")
        reads = [(at, n, step * axis.size) for at, n, step in above.reads] + axis.reads
        start = above.start * axis.size + axis.start
        found[-1] = _Axis(above.size * axis.size, axis.stride, reads, start)
    return found


def _read(y: Tensor, at: int, axis: _Axis) -> Tensor:
    """Return the tensor with the axis at a position replaced by the axes of the result that read it."""
    if not axis.reads:
        return y.select(at, axis.start)
    if len(axis.reads) == 1 and axis.reads[0][2] == 1 and not axis.start:
        wanted = axis.reads[0][1]
        return y if not _differ(wanted, axis.size) else y.narrow(at, 0, wanted)
    places = torch.full([1] * len(axis.reads), axis.start, dtype=torch.int64)
    for own, (_, n, step) in enumerate(axis.reads):
        shape = [1] * len(axis.reads)
        shape[own] = n
        places = places + (torch.arange(n) * step).reshape(shape)
    return y[(slice(None),) * at + (places.reshape([n for _, n, _ in axis.reads]),)]


def _expression(size: Any) -> sympy.Expr:
    return size.node.expr if isinstance(size, torch.SymInt) else sympy.Integer(size)


def _differ(a: Any, b: Any) -> bool:
    """Whether two sizes are not certainly equal; asking them themselves would fix symbolic ones."""
    return sympy.simplify(_expression(a) - _expression(b)) != 0


def _hint(size: Any) -> int:
    return int(size.node.hint) if isinstance(size, torch.SymInt) else size
