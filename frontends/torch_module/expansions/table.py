"""A table of operators written in simpler operators of torch, to be traced on the arguments of one call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Expansion = TypeVar("Expansion", bound=Callable[..., Any])


class Expansions:
    """Operator name -> a function of the same arguments that computes it by operators that have lowerings."""

    def __init__(self) -> None:
        self.rows: dict[str, Callable[..., Any]] = {}

    def of(self, *names: str) -> Callable[[Expansion], Expansion]:
        """Register the decorated function as the expansion of `names`."""

        def register(function: Expansion) -> Expansion:
            for name in names:
                if name in self.rows:
                    raise ValueError(f"two expansions claim `{name}`")
                self.rows[name] = function
            return function

        return register


class Inexpressible(Exception):  # noqa: N818 - a signal to the caller, never shown to a user
    """This form of the operator has no expansion; the message says why."""
