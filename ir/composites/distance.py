"""Distances between all rows of two matrices, and slices scaled down to a norm."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..dims import broadcast, differ
from ..signatures import AttributeSpec
from ..traits import Traits
from ..types import TensorType
from .base import CompositeTable
from .matrices import matrix_shape, total, within
from .terms import Term, axis_of, infer_floating, sqrt, terms_of, where

if TYPE_CHECKING:
    from ..builder import Builder
    from ..nodes import Operator, Value

TABLE = CompositeTable()


def _infer_distances(operator: Operator, types: Sequence[TensorType | None]) -> list[TensorType | None]:
    x, y = types
    left, right = matrix_shape(x), matrix_shape(y)
    if x is None or y is None or left is None or right is None:
        return [None if x is None else x.with_shape(None)]
    if x.dtype != y.dtype or differ(left[-1], right[-1]):
        raise ValueError(f"expected rows of one length and element type, got {x} and {y}")
    return [x.with_shape((*broadcast(left[:-2], right[:-2]), left[-2], right[-2]))]


def _extreme(x: Term, axes: Sequence[int], *, keep: bool) -> Term:
    return Term(x.b, x.b.op("ReduceMax", x.value, x.b.constant(list(axes)), keepdims=int(keep)))


def _expand_distances(b: Builder, operator: Operator, operands: Sequence[Value | None]) -> list[Value]:
    """Element by element, of every row to every row."""
    x, y = terms_of(b, operands)
    p, apart = operator.float("p"), abs(within(x, -2) - within(y, -3))
    if p == 0:
        found = total(where(apart.equals(0.0), 0.0, 1.0).cast(x.dtype), -1, keep=False)
    elif p == 1:
        found = total(apart, -1, keep=False)
    elif p == 2:
        found = sqrt(total(apart * apart, -1, keep=False))
    elif math.isinf(p):
        found = _extreme(apart, [-1], keep=False)
    else:
        found = total(apart**p, -1, keep=False) ** (1 / p)
    return [found.value]


TABLE.add(
    "PairwiseDistances",
    inputs="X Y",
    attributes=[AttributeSpec("p", "float", default=2.0)],
    infer=_infer_distances,
    expand=_expand_distances,
    summary="the p-norm of the difference of every row of X to every row of Y",
    traits=Traits(heavy=True),
)


def _infer_scaled(operator: Operator, types: Sequence[TensorType | None]) -> list[TensorType | None]:
    if types[0] is not None and types[0].rank is not None:
        axis_of(operator, types[0])
    return infer_floating(operator, types)


def _norm(x: Term, p: float, axes: Sequence[int]) -> Term:
    if not axes:
        return abs(x)
    if p in (1, 2):
        return Term(x.b, x.b.op(f"ReduceL{int(p)}", x.value, x.b.constant(list(axes))))
    if math.isinf(p):
        return _extreme(abs(x), axes, keep=True)
    powers = x.b.op("ReduceSum", (abs(x) ** p).value, x.b.constant(list(axes)))
    return Term(x.b, powers) ** (1 / p)


def _expand_scaled(b: Builder, operator: Operator, operands: Sequence[Value | None]) -> list[Value]:
    (x,) = terms_of(b, operands)
    rank, most = b.type_of(x.value).rank, operator.float("maxnorm")
    assert rank is not None
    norms = _norm(x, operator.float("p"), [a for a in range(rank) if a != operator.int("axis") % rank])
    return [where(norms > most, x * (most / (norms + 1e-7)), x).value]


TABLE.add(
    "Renorm",
    inputs="X",
    attributes=[
        AttributeSpec("p", "float", default=2.0),
        AttributeSpec("axis", "int", default=0),
        AttributeSpec("maxnorm", "float", required=True),
    ],
    infer=_infer_scaled,
    expand=_expand_scaled,
    summary="every slice along an axis whose p-norm over all others is above `maxnorm`, scaled down to it",
)
