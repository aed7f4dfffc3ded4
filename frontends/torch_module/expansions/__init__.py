"""Operators that torch does not decompose, written here in operators that have lowerings.

The only modules of this frontend that import torch when they are imported: import them inside functions.
"""

from __future__ import annotations

from . import (
    complex_functions,
    complex_numbers,
    fourier,
    index,
    loss,
    pool,
    quantised,
    regions,
    select,
    strided,
)
from .complex_numbers import expansion as complex_expansion
from .table import Expansions, Inexpressible

EXPANSIONS = Expansions(
    *(family.table for family in (index, loss, pool, quantised, regions, select, strided))
)

assert fourier.table is complex_functions.table is complex_numbers.table  # which the imports have filled
IN_PARTS = frozenset(complex_numbers.table)
"""Operators that are written on the parts of complex tensors, beside those that treat both parts alike."""

__all__ = ["EXPANSIONS", "IN_PARTS", "Inexpressible", "complex_expansion"]
