"""Scans along an axis, by doubling: after k steps every element has seen the 2**k elements up to it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..errors import BackendError
from ..signatures import AttributeSpec
from ..types import TensorType, numpy_dtype
from .base import CompositeTable
from .terms import Term, axis_of, exp, infer_elementwise, infer_floating, log, maximum, where, whole

if TYPE_CHECKING:
    from ..builder import Builder
    from ..nodes import Operator, Value

TABLE = CompositeTable()


def _infer_values(operator: Operator, types: Sequence[TensorType | None]) -> list[TensorType | None]:
    if types[0] is not None and types[0].rank is not None:
        axis_of(operator, types[0])
    return infer_elementwise(operator, types)


def _infer_logarithms(operator: Operator, types: Sequence[TensorType | None]) -> list[TensorType | None]:
    infer_floating(operator, types)
    return _infer_values(operator, types)


def _infer_extremes(operator: Operator, types: Sequence[TensorType | None]) -> list[TensorType | None]:
    (values,) = _infer_values(operator, types)
    return [values, None if values is None else TensorType("int64", values.shape)]


def _scanned(b: Builder, operator: Operator, operands: Sequence[Value | None]) -> tuple[Term, int, int]:
    """Return the operand, the axis, and its length."""
    assert operands[0] is not None
    x = Term(b, operands[0])
    known = b.type_of(x.value)
    if known.shape is None:
        raise BackendError("E602", f"expected a scan of a tensor of known rank, got {known}")
    axis = axis_of(operator, known)
    length = known.shape[axis]
    if not isinstance(length, int):
        raise BackendError(
            "E602",
            f"expected a static size of the scanned axis {axis}, got {known}",
            hint="give the input sizes with --input, or scan another axis",
        )
    return x, axis, length


def _moved(x: Term, axis: int, by: int, fill: float) -> Term:
    """Shift the term along an axis, with `fill` at the front."""
    rank = x.b.type_of(x.value).rank
    assert rank is not None
    pads = [0] * (2 * rank)
    pads[axis] = by
    return x.op("Slice", *(whole(x, bound) for bound in (0, -by, axis))).op("Pad", whole(x, *pads), fill)


def _steps(length: int) -> list[int]:
    """Return the distances over which a scan of this length takes elements together, each twice the last."""
    return [2**k for k in range(max(length - 1, 0).bit_length())]


def _scan(combine: Callable[[Term, Term], Term], fill: float) -> Callable[..., list[Value]]:
    def expand(b: Builder, operator: Operator, operands: Sequence[Value | None]) -> list[Value]:
        x, axis, length = _scanned(b, operator, operands)
        for step in _steps(length):
            x = combine(_moved(x, axis, step, fill), x)
        return [x.value]

    return expand


def _log_add_exp(x: Term, y: Term) -> Term:
    equal = x.equals(y)  # as two infinities are
    return maximum(x, y) + log(1 + exp(-abs(where(equal, 0.0, x) - where(equal, 0.0, y))))


def _extreme(largest: bool) -> Callable[..., list[Value]]:
    def expand(b: Builder, operator: Operator, operands: Sequence[Value | None]) -> list[Value]:
        x, axis, length = _scanned(b, operator, operands)
        is_floating = x.dtype.startswith(("float", "bfloat"))
        limits = (-math.inf, math.inf) if is_floating else _limits(x.dtype)
        rank = b.type_of(x.value).rank
        assert rank is not None
        places = np.arange(length).reshape([length if a == axis else 1 for a in range(rank)])
        at = Term(b, b.op("Expand", b.constant(places), b.op("Shape", x.value)))
        for step in _steps(length):
            before = _moved(x, axis, step, limits[0] if largest else limits[1])
            stays = x >= before if largest else x <= before  # the later of equals
            if is_floating:
                stays = stays | x.op("IsNaN")
            at = where(stays, at, _moved(at, axis, step, 0))
            x = where(stays, x, before)
        return [x.value, at.value]

    return expand


def _limits(dtype: str) -> tuple[int, int]:
    info = np.iinfo(numpy_dtype(dtype))
    return int(info.min), int(info.max)


_AXIS = [AttributeSpec("axis", "int", required=True)]
for _name, _largest, _word in (("CumMax", True, "largest"), ("CumMin", False, "smallest")):
    TABLE.add(
        _name,
        inputs="X",
        outputs="values indices",
        attributes=_AXIS,
        infer=_infer_extremes,
        expand=_extreme(_largest),
        summary=f"the {_word} element so far along an axis (NaN from one on), and where it was last",
    )
TABLE.add(
    "CumProd",
    inputs="X",
    attributes=_AXIS,
    infer=_infer_values,
    expand=_scan(lambda before, x: before * x, 1),
    summary="running products along an axis",
)
TABLE.add(
    "LogCumSumExp",
    inputs="X",
    attributes=_AXIS,
    infer=_infer_logarithms,
    expand=_scan(_log_add_exp, -math.inf),
    summary="the logarithm of the running sum of exponentials along an axis",
)
