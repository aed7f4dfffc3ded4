"""What a live model consists of, as it is: attributes, containers and plain objects, put back in place."""

from __future__ import annotations

import types
import weakref
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from operator import is_
from typing import Any

_CONTAINERS = (dict, OrderedDict, defaultdict, list, set, deque)
_ATOMS = (str, bytes, int, float, complex, bool, type(None), type, types.ModuleType, types.FunctionType)
_USUAL = frozenset(_ATOMS)
"""Types of atoms themselves, which are told apart faster than classes derived of them."""

_LIBRARIES = ("torch", "mindspore", "numpy", "builtins", "weakref", "threading", "_thread", "logging")
"""Packages whose objects, modules apart, are looked into no further."""


class Snapshot:
    """What can be reached from models through attributes, containers and plain objects, as it is now.

    Args:
        models: where to begin.
        is_module: whether an object is a module, which is looked into although its class is a library's.
        is_tensor: whether an object is a tensor, which is not.

    Attributes:
        tensors: those found.
    """

    def __init__(
        self, models: Iterable[Any], is_module: Callable[[Any], bool], is_tensor: Callable[[Any], bool]
    ) -> None:
        self.tensors: list[Any] = []
        self._undo: list[Callable[[], None]] = []
        seen: dict[int, Any] = {}
        kinds: set[type] = set()
        sorts: dict[type, str] = {}
        waiting = list(models)
        while waiting:
            found = waiting.pop()
            if id(found) in seen:
                continue
            seen[id(found)] = found
            sort = sorts.get(type(found))
            if sort is None:
                sort = _sort(found, is_module, is_tensor)
                if type(found) not in weakref.ProxyTypes:  # each passes for what it refers to
                    sorts[type(found)] = sort
            held: Iterable[Any] = ()
            if sort == "tensor":
                self.tensors.append(found)
            elif sort == "tuple":
                held = found
            elif sort == "container":
                self._undo.append(container_kept(found))
                held = found.values() if isinstance(found, dict) else found
            elif sort == "object":
                attributes = getattr(found, "__dict__", None)
                if type(attributes) is dict:
                    kinds.update(type(found).__mro__)
                    self._undo.append(container_kept(attributes))
                    held = attributes.values()
            waiting += [value for value in held if type(value) not in _USUAL]
        self._undo += [_class_kept(kind) for kind in kinds if not _is_of_library(kind)]
        self._seen = seen  # alive, so that no other object gets an id of theirs

    def restore(self) -> None:
        """Put everything back, in place; what has not changed is not touched."""
        for undo in self._undo:
            undo()


def _sort(found: Any, is_module: Callable[[Any], bool], is_tensor: Callable[[Any], bool]) -> str:
    """Return what an object is looked into as, which its type says: "" for not at all."""
    if isinstance(found, _ATOMS):
        return ""
    if is_tensor(found):
        return "tensor"
    if isinstance(found, tuple):
        return "tuple"
    if type(found) in _CONTAINERS:
        return "container"
    return "object" if is_module(found) or not (_is_of_library(type(found)) or callable(found)) else ""


def container_kept(found: Any) -> Callable[[], None]:
    """What puts the contents of a container back, their order included, should they change."""
    if isinstance(found, dict):
        items = dict(found)

        def undo_items() -> None:
            same = len(found) == len(items) and all(map(is_, found, items))
            if not same or not all(map(is_, found.values(), items.values())):
                found.clear()
                found.update(items)

        return undo_items
    before = list(found)

    def undo() -> None:
        if len(found) != len(before) or any(a is not b for a, b in zip(found, before, strict=True)):
            found.clear()
            (found.update if isinstance(found, set) else found.extend)(before)

    return undo


def _class_kept(kind: type) -> Callable[[], None]:
    """A class, whose attributes may count calls or keep a cache for all its objects."""
    before = {n: v for n, v in vars(kind).items() if not n.startswith("__")}
    contents = [container_kept(v) for v in before.values() if type(v) in _CONTAINERS]

    def undo() -> None:
        now = {n: v for n, v in vars(kind).items() if not n.startswith("__")}
        for name in now.keys() - before.keys():
            delattr(kind, name)
        for name, value in before.items():
            if now.get(name) is not value:
                setattr(kind, name, value)
        for each in contents:
            each()

    return undo


def _is_of_library(kind: type) -> bool:
    return kind.__module__.partition(".")[0] in _LIBRARIES
