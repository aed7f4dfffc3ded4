"""The table that a family file fills: operators with their lowerings, emitters, expansions, declarations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

Row = TypeVar("Row")
Function = TypeVar("Function", bound=Callable[..., Any])


class Table(dict[str, Row]):
    """Name -> row; a name that is claimed twice raises on import.

    Args:
        tables: of family files, whose rows it holds.
    """

    def __init__(self, *tables: Mapping[str, Row]) -> None:
        super().__init__()
        for table in tables:
            for name, row in table.items():
                self.claim(name, row)

    def claim(self, name: str, row: Any) -> None:
        """Add a row.

        Raises:
            ValueError: when the name has one.
        """
        if name in self:
            raise ValueError(f"two rows of one table claim `{name}`")
        self[name] = row

    def op(self, *names: str) -> Callable[[Function], Function]:
        """Register the decorated function as the row of some operators."""

        def register(function: Function) -> Function:
            for name in names:
                self.claim(name, function)
            return function

        return register
