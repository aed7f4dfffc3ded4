"""Records the user's lines that register Cells, while a model's file runs."""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Registration:
    """One Cell put into another.

    Attributes:
        method: how: ``insert_child_to_cell``, ``append``, ``__setattr__`` and so on; ``__init__`` for a
            container's own.
        file: the user's file.
        line: and the line there.
        in_class: whether the line is in a function, and not at the top of the file.
        named: whether the names of the child's parameters began with its own name once it was in.
    """

    method: str
    file: str
    line: int
    in_class: bool
    named: bool

    @property
    def place(self) -> str:
        """The line as findings name it, ``net.py:12``."""
        return f"{Path(self.file).name}:{self.line}"


_METHODS = ("insert_child_to_cell", "append", "extend", "insert", "__setattr__", "__setitem__", "update")
_known: dict[int, tuple[weakref.ref[Any], dict[str, Registration]]] = {}
_depth = 0
_CALLER = str(Path(__file__).parents[1] / "python_file.py")


def registrations(cell: object) -> dict[str, Registration]:
    """Name of a child -> how it was registered; empty for a Cell that was not made from a named file."""
    owner, found = _known.get(id(cell), (None, {}))
    return found if owner is not None and owner() is cell else {}


@contextmanager
def watch_registrations() -> Iterator[None]:
    """Record in a with block every registration of a Cell in another, with its line."""
    global _depth
    if _depth:
        yield
        return
    from mindspore import nn

    _depth += 1
    undo = []
    for owner in (nn.Cell, nn.SequentialCell, nn.CellList, nn.CellDict):
        for method in _METHODS:
            original = vars(owner).get(method)
            if original is not None:
                undo.append((owner, method, original))
                setattr(owner, method, _watching(original, method))
    try:
        yield
    finally:
        _depth -= 1
        for owner, method, original in undo:
            setattr(owner, method, original)


def _watching(original: Callable[..., Any], method: str) -> Callable[..., Any]:
    def register(self: Any, *arguments: Any, **options: Any) -> Any:
        if method == "__setattr__" and not _is_cell(arguments[1]):
            return original(self, *arguments, **options)
        before = dict(self.__dict__.get("_cells") or {})
        result = original(self, *arguments, **options)
        for name, child in (self.__dict__.get("_cells") or {}).items():
            if child is not None and before.get(name) is not child:
                _note(self, name, child, method)
        return result

    return register


def _is_cell(value: object) -> bool:
    from mindspore.nn import Cell

    return isinstance(value, Cell)


def _note(owner: Any, name: str, child: Any, method: str) -> None:
    place = _user_line()
    if place is None:
        return
    if method == "insert_child_to_cell" and sys._getframe(2).f_code.co_filename != place[0]:
        method = "__init__"
    entry = _known.get(id(owner))
    if entry is None or entry[0]() is not owner:
        key = id(owner)
        entry = (weakref.ref(owner, lambda _: _known.pop(key, None)), {})
        _known[key] = entry
    entry[1][name] = Registration(method, *place, is_named_after(child, name))


def is_named_after(child: Any, name: str) -> bool:
    """Whether the names of a child's parameters have its own in them; True where it has none."""
    first = next(child.get_parameters(), None)
    return first is None or f".{name}." in f".{first.name}"


def _user_line() -> tuple[str, int, bool] | None:
    """Return file, line, and whether in a function, of the innermost frame neither MindSpore's nor ours."""
    import mindspore

    home = f"{Path(str(mindspore.__file__)).parent}{os.sep}"
    frame = sys._getframe(2)
    while frame is not None:
        name = frame.f_code.co_filename
        if name not in (__file__, _CALLER) and not name.startswith((home, "<")):
            return name, frame.f_lineno, frame.f_code.co_name != "<module>"
        frame = frame.f_back
    return None
