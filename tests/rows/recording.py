"""Which rows of a table run, for the time of a `with`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any


class _Read(dict):
    """A mapping that notes which keys are read by `[]` or `get`."""

    def __init__(self, rows: MutableMapping[str, Any], note: Callable[[str], None]) -> None:
        super().__init__(rows)
        self._note = note

    def __getitem__(self, key: str) -> Any:
        found = super().__getitem__(key)
        self._note(key)
        return found

    def get(self, key: str, default: Any = None) -> Any:
        if key in self:
            return self[key]
        return default


@contextmanager
def rows_that_run(owner: Any, *attributes: str) -> Iterator[set[str]]:
    """Yield the set of keys that are looked up in mappings of `owner`, an object or a module."""
    found: set[str] = set()
    before = {name: getattr(owner, name) for name in attributes}
    for name, rows in before.items():
        setattr(owner, name, _Read(rows, found.add))
    try:
        yield found
    finally:
        for name, rows in before.items():
            setattr(owner, name, rows)
