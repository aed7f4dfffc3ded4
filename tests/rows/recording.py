"""Which rows of a table run, for the time of a `with`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from functools import wraps
from typing import Any


class _Noted(dict):
    """A mapping that notes which rows are read and, where they are functions, return something."""

    def __init__(
        self, rows: MutableMapping[str, Any], note: Callable[[str], None], counts: Callable[..., bool]
    ) -> None:
        super().__init__(rows)
        self._note, self._counts = note, counts

    def __getitem__(self, key: str) -> Any:
        row = super().__getitem__(key)
        if not callable(row):
            self._note(key)
            return row

        @wraps(row)
        def noted(*arguments: Any, **keywords: Any) -> Any:
            found = row(*arguments, **keywords)
            if self._counts(*arguments):
                self._note(key)
            return found

        return noted

    def get(self, key: str, default: Any = None) -> Any:
        return self[key] if key in self else default  # noqa: SIM401 - which would not note it


@contextmanager
def rows_that_run(
    owner: Any, *attributes: str, counts: Callable[..., bool] = lambda *_: True
) -> Iterator[set[str]]:
    """Yield the set of rows that run, a row that refuses its arguments not among them.

    Args:
        owner: an object or a module.
        attributes: names of the mappings that are the table's rows.
        counts: whether a run with these arguments is one.
    """
    found: set[str] = set()
    before = {name: getattr(owner, name) for name in attributes}
    for name, rows in before.items():
        setattr(owner, name, _Noted(rows, found.add, counts))
    try:
        yield found
    finally:
        for name, rows in before.items():
            setattr(owner, name, rows)
