"""Householder's reflections, and the QR factors that they make; signs are LAPACK's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..signatures import AttributeSpec
from ..traits import Traits
from ..types import TensorType
from .base import CompositeTable
from .matrices import (
    column,
    constant,
    empty_of,
    identity,
    in_batch_of,
    joined,
    least,
    matrix_shape,
    part,
    places,
    row,
    spread_like,
    static_sizes,
    total,
    within,
    without,
)
from .terms import Term, sqrt, terms_of, where

if TYPE_CHECKING:
    from ..builder import Builder
    from ..nodes import Operator, Value

TABLE = CompositeTable()
_HEAVY = Traits(heavy=True)


def _turned(a: Term, vector: Term, factor: Term) -> Term:
    """Return a reflection from the left: (1 - factor v v.T) a."""
    return a - factor * vector * total(vector * a, -2)


def _reflected(a: Term) -> tuple[Term, list[Term]]:
    """Return (R with the reflectors below its diagonal, their factors as 1x1 matrices)."""
    rows, columns = static_sizes(a)
    at, along = places(rows, axis=-2), places(columns, axis=-1)
    factors: list[Term] = []
    for step in range(min(rows, columns)):
        own, beyond = column(a, step), constant(a, at > step)
        on_it, below = constant(a, at == step), where(beyond, own, 0.0)
        alpha, rest = row(own, step), total(below * below, -2)
        size, none = sqrt(alpha * alpha + rest), rest.equals(0.0)
        beta = where(none, alpha, where(alpha < 0.0, size, -size))
        factor = where(none, 0.0, (beta - alpha) / where(none, 1.0, beta))
        vector = where(on_it, 1.0, below / where(none, 1.0, alpha - beta))
        packed = where(beyond, vector, where(on_it, beta, own))
        turned = where(constant(a, along > step), _turned(a, vector, factor), a)
        a = where(constant(a, along == step), packed, turned)
        factors.append(factor)
    return a, factors


def _product(packed: Term, factors: Sequence[Term], a: Term, *, transpose: bool) -> Term:
    """Q @ a or Q.T @ a, of the Q that reflectors below a diagonal stand for."""
    rows, _ = static_sizes(packed)
    at = places(rows, axis=-2)
    steps = list(enumerate(factors))
    for step, factor in steps if transpose else reversed(steps):
        below = where(constant(a, at > step), column(packed, step), 0.0)
        vector = where(constant(a, at == step), 1.0, below)
        a = _turned(a, vector, factor)
    return a


def _factors_of(tau: Term) -> list[Term]:
    """Return each factor as a 1x1 matrix."""
    known = tau.b.type_of(tau.value).shape
    count = known[-1] if known else None
    assert isinstance(count, int)
    wide = within(tau, -1)
    return [part(wide, -2, step, step + 1) for step in range(count)]


# -- reflectors ------------------------------------------------------------------------------------------


def _expand_reflectors(b: Builder, _: Operator, operands: Sequence[Value | None]) -> list[Value]:
    (a,) = terms_of(b, operands)
    packed, factors = _reflected(a.cast("float64"))
    together = without(joined(factors, -2), -1) if factors else empty_of(a)
    return [packed.cast(a.dtype).value, together.cast(a.dtype).value]


def _infer_reflectors(operator: Operator, types: Sequence[TensorType | None]) -> list[TensorType | None]:
    a, shape = types[0], matrix_shape(types[0])
    if a is None or shape is None:
        return [a, a]
    return [a, a.with_shape((*shape[:-2], least(*shape[-2:])))]


def _infer_columns(operator: Operator, types: Sequence[TensorType | None]) -> list[TensorType | None]:
    matrix_shape(types[0])
    return [types[0]]


def _expand_columns(b: Builder, _: Operator, operands: Sequence[Value | None]) -> list[Value]:
    packed, tau = terms_of(b, operands)
    wide = packed.cast("float64")
    start = spread_like(identity(wide, *static_sizes(wide)), wide)
    found = _product(wide, _factors_of(tau.cast("float64")), start, transpose=False)
    return [found.cast(packed.dtype).value]


def _infer_reflection(operator: Operator, types: Sequence[TensorType | None]) -> list[TensorType | None]:
    matrix_shape(types[0])
    matrix_shape(types[-1])
    return [types[-1]]


def _expand_reflection(b: Builder, operator: Operator, operands: Sequence[Value | None]) -> list[Value]:
    packed, tau, a = terms_of(b, operands)
    wide = packed.cast("float64"), _factors_of(tau.cast("float64")), a.cast("float64")
    return [_product(*wide, transpose=bool(operator.int("transposed"))).cast(a.dtype).value]


TABLE.add(
    "Reflectors",
    inputs="A",
    outputs="packed tau",
    infer=_infer_reflectors,
    expand=_expand_reflectors,
    summary="R of A = Q @ R with Householder's vectors below its diagonal, and their factors: LAPACK's geqrf",
    traits=_HEAVY,
)
TABLE.add(
    "ReflectorsProduct",
    inputs="packed tau",
    infer=_infer_columns,
    expand=_expand_columns,
    summary="the first columns of the Q of reflectors: LAPACK's orgqr",
    traits=_HEAVY,
)
TABLE.add(
    "ApplyReflectors",
    inputs="packed tau C",
    attributes=[AttributeSpec("transposed", "int", default=0)],
    infer=_infer_reflection,
    expand=_expand_reflection,
    summary="Q @ C, or Q.T @ C, of the Q of reflectors: LAPACK's ormqr",
    traits=_HEAVY,
)


# -- QR --------------------------------------------------------------------------------------------------


def _infer_qr(operator: Operator, types: Sequence[TensorType | None]) -> list[TensorType | None]:
    a, shape = types[0], matrix_shape(types[0])
    if a is None or shape is None:
        return [a, a]
    *batch, rows, columns = shape
    inner = rows if operator.int("full") else least(rows, columns)
    return [a.with_shape((*batch, rows, inner)), a.with_shape((*batch, inner, columns))]


def _expand_qr(b: Builder, operator: Operator, operands: Sequence[Value | None]) -> list[Value]:
    (a,) = terms_of(b, operands)
    rows, columns = static_sizes(a)
    inner = rows if operator.int("full") else min(rows, columns)
    wide = a.cast("float64")
    packed, factors = _reflected(wide)
    right = part(packed, -2, 0, inner).op("Trilu", upper=1)
    start = in_batch_of(identity(wide, rows, inner), wide)
    left = _product(packed, factors, start, transpose=False)
    return [left.cast(a.dtype).value, right.cast(a.dtype).value]


TABLE.add(
    "QR",
    inputs="A",
    outputs="Q R",
    attributes=[AttributeSpec("full", "int", default=0)],
    infer=_infer_qr,
    expand=_expand_qr,
    summary="A = Q @ R, Q orthogonal (square where full) and R triangular, of LAPACK's signs on its diagonal",
    traits=_HEAVY,
)
