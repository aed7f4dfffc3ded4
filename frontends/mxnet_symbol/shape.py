"""Operators that move values without changing them."""

from __future__ import annotations

from ...ir import Value
from .use import Use, new_table

TABLE = new_table()


@TABLE.op("Flatten")
def flatten(use: Use) -> Value:
    return use.x if use.rank(use.x) == 2 else use.b.op("Flatten", use.x, axis=1)
