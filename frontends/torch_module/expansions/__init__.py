"""Operators that torch does not decompose, written here in operators that have lowerings.

The only modules of this frontend that import torch when they are imported: import them inside functions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import bessel, index, linalg, loss, polynomial, pool, scan, select, special
from .table import Inexpressible

EXPANSIONS: dict[str, Callable[..., Any]] = {}
for _family in (bessel, index, linalg, loss, polynomial, pool, scan, select, special):
    for _name, _function in _family.table.rows.items():
        if _name in EXPANSIONS:
            raise ValueError(f"two expansions claim `{_name}`")
        EXPANSIONS[_name] = _function

__all__ = ["EXPANSIONS", "Inexpressible"]
