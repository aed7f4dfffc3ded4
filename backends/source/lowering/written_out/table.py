"""The table that a family file of expansions fills, and what they share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from .....ir import Builder, Operator, Value
from .....ir.composites.terms import Term, whole
from .....ir.table import Table

Expansion = Callable[[Builder, Operator, Sequence[Value | None]], "list[Term] | None"]
"""(builder, operator, operands) -> the values of its outputs; None for a form that it does not cover.

A form that it does not cover adds nothing to the graph that is used.
"""


class ExpansionTable(Table[Expansion]):
    """The expansions of one family file."""


def given(b: Builder, operands: Sequence[Value | None], count: int) -> list[Term | None]:
    """Return this many operands, None for those that are absent."""
    padded = [*operands, *[None] * count][:count]
    return [None if value is None else Term(b, value) for value in padded]


def sizes_of(x: Term) -> list[int] | None:
    """Return the sizes of all axes; None where some are not known."""
    known = x.b.type_of(x.value)
    return list(known.static_shape()) if known.is_static else None


def rank_of(x: Term) -> int | None:
    """Return the number of axes, None where it is not known."""
    return x.b.type_of(x.value).rank


def size_of(x: Term, axis: int) -> int | None:
    """Return the size of an axis counted from the front; None where it is not known."""
    shape = x.b.type_of(x.value).shape
    size = None if shape is None else shape[axis]
    return size if isinstance(size, int) else None


def constant(like: Term, array: np.ndarray, dtype: str | None = None) -> Term:
    """Return an array in the element type of a term, or another."""
    return Term(like.b, like.b.constant(array, dtype or like.dtype))


def backwards(x: Term, axis: int) -> Term:
    """Return a tensor with one axis read from its end."""
    return x.op("Slice", whole(x, -1), whole(x, -(2**63) + 1), whole(x, axis), whole(x, -1))


def along(like: Term, count: int, axis: int, rank: int, dtype: str) -> Term:
    """Return the numbers from 0 on along one of several axes."""
    shape = [1] * rank
    shape[axis] = count
    return constant(like, np.arange(count).reshape(shape), dtype)
