"""Operators that torch does not decompose, written here in operators that have lowerings.

The only modules of this frontend that import torch when they are imported: import them inside functions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import (
    complex_functions,
    complex_numbers,
    fourier,
    index,
    loss,
    pool,
    regions,
    select,
    strided,
)
from .complex_numbers import expansion as complex_expansion
from .table import Inexpressible

EXPANSIONS: dict[str, Callable[..., Any]] = {}
for _family in (index, loss, pool, regions, select, strided):
    for _name, _function in _family.table.rows.items():
        if _name in EXPANSIONS:
            raise ValueError(f"two expansions claim `{_name}`")
        EXPANSIONS[_name] = _function

assert fourier.table is complex_functions.table is complex_numbers.table  # which the imports have filled
IN_PARTS = frozenset(complex_numbers.table.rows)
"""Operators that are written on the parts of complex tensors, beside those that treat both parts alike."""

__all__ = ["EXPANSIONS", "IN_PARTS", "Inexpressible", "complex_expansion"]
