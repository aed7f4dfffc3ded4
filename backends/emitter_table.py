"""The table from operators to emitters that all backends use: one a family file, merged in one place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

T = TypeVar("T")


class Rows(dict[str, T]):
    """Operator -> emitter; a name claimed twice raises on import."""

    def claim(self, name: str, emitter: T) -> None:
        """Add a row.

        Raises:
            ValueError: when the operator has one.
        """
        if name in self:
            raise ValueError(f"emitter of `{name}` claimed twice")
        self[name] = emitter

    def claim_all(self, rows: Mapping[str, T]) -> None:
        """Add the rows of a family's table."""
        for name, emitter in rows.items():
            self.claim(name, emitter)

    def register(self, *names: str) -> Callable[[T], T]:
        """Register the decorated function for some operators."""

        def register(emitter: T) -> T:
            for name in names:
                self.claim(name, emitter)
            return emitter

        return register
