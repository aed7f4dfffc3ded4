"""Operators of a graph as the calls of PyTorch's that compute them: a graph is searched as a method is.

A row is added to the file of its family. Each is run on recorded values before it is relied on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .arrays import ARRAYS
from .elementwise import ELEMENTWISE
from .reading import BEFORE, Call, Reading, Row, sizes_of, written
from .windows import WINDOWS

__all__ = ["BEFORE", "Call", "Reading", "calls_of", "function_of", "sizes_of", "written"]

_TABLE: dict[str, Row] = {**ELEMENTWISE, **ARRAYS, **WINDOWS}
"""Operator -> what makes the calls that compute it."""


def calls_of(reading: Reading) -> Sequence[Call]:
    """Return the calls that compute an operator, one after the other; none where nobody knows them."""
    row = _TABLE.get(reading.operator.qualified_name)
    if row is None or reading[0] is None:
        return ()
    found = row(reading)
    return () if found is None else (found,) if isinstance(found, Call) else found


def function_of(call: Call) -> tuple[str, Any]:
    """(kind of the record, what is called)."""
    from ..instrumenting import OPERATORS

    if call.name.startswith("."):
        name = call.name[1:]
        return "method", lambda x, *args, **kwargs: getattr(x, name)(*args, **kwargs)
    if call.name in OPERATORS:
        return "operator", OPERATORS[call.name]
    import torch

    room, _, name = call.name.partition(".")
    return "call", getattr(torch if room == "torch" else torch.nn.functional, name)
