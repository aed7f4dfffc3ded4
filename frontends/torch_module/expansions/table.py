"""A table of operators written in simpler operators of torch, to be traced on the arguments of one call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....ir.table import Table


class Expansions(Table[Callable[..., Any]]):
    """Operator name -> a function of the same arguments that computes it by operators that have lowerings."""


class Inexpressible(Exception):  # noqa: N818 - a signal to the caller, never shown to a user
    """This form of the operator has no expansion; the message says why."""
