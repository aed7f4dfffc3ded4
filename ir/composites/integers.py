"""Functions of whole numbers: common divisors and multiples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..traits import Traits
from .base import CompositeTable
from .terms import Term, infer_whole, terms_of, where

if TYPE_CHECKING:
    from ..builder import Builder
    from ..nodes import Operator, Value

TABLE = CompositeTable()


def _gcd(x: Term, y: Term) -> Term:
    """By as many steps of Euclid's algorithm as the type may need."""
    steps = 46 if x.dtype.removeprefix("u") in ("int8", "int16", "int32") else 91
    for _ in range(steps):
        is_done = y.equals(0)
        rest = x.op("Mod", where(is_done, 1, y))
        x, y = where(is_done, x, y), where(is_done, 0, rest)
    return x


def _sizes(b: Builder, operands: Sequence[Value | None]) -> list[Term]:
    """What is not negative of both operands, which unsigned ones are already."""
    return [x if x.dtype.startswith("u") else abs(x) for x in terms_of(b, operands)]


def _expand_gcd(b: Builder, _: Operator, operands: Sequence[Value | None]) -> list[Value]:
    return [_gcd(*_sizes(b, operands)).value]


def _expand_lcm(b: Builder, _: Operator, operands: Sequence[Value | None]) -> list[Value]:
    x, y = _sizes(b, operands)
    common = _gcd(x, y)
    return [(x / where(common.equals(0), 1, common) * y).value]


TABLE.add(
    "Gcd",
    inputs="X Y",
    infer=infer_whole,
    expand=_expand_gcd,
    summary="the greatest common divisor, elementwise",
    traits=Traits(elementwise=True, broadcasting=True),
)
TABLE.add(
    "Lcm",
    inputs="X Y",
    infer=infer_whole,
    expand=_expand_lcm,
    summary="the least common multiple, elementwise",
    traits=Traits(elementwise=True, broadcasting=True),
)
