"""Restores the objects of a live model, and those that its code can reach, to their former state."""

from __future__ import annotations

import types
import weakref
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, MutableMapping
from operator import is_
from typing import Any

from .reached_code import CALLABLES, ReachedCode

_CONTAINERS = (dict, OrderedDict, defaultdict, list, set, deque, weakref.WeakKeyDictionary)
_ATOMS = (str, bytes, int, float, complex, bool, type(None), types.ModuleType)
USUAL_ATOMS = frozenset(_ATOMS)
"""Types of atoms themselves, which are told apart faster than classes derived of them."""

_LIBRARIES = ("torch", "mindspore", "numpy", "builtins", "weakref", "threading", "_thread", "logging")
"""Packages whose objects, modules apart, are looked into no further."""


class Snapshot:
    """The state of objects reachable from models through attributes, containers, plain objects and code.

    Code reaches global names, class attributes, closures, defaults and caches of functools: a forward that
    fills one of these while it is traced would leave tensors without values there.

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
        self._is_module, self._is_tensor = is_module, is_tensor
        self._seen: dict[int, Any] = {}  # alive, so that no other object gets an id of theirs
        self._kinds: dict[type, None] = {}
        self._sorts: dict[type, str] = {}
        callables = self._look_into(models)
        classes = [k for k in self._kinds if not _is_of_library(k)]
        code = ReachedCode([c.__module__ for c in (*classes, *callables) if hasattr(c, "__module__")])
        callables += classes
        while callables:
            known = len(self._kinds)
            values = [v for c in callables for v in code.values_behind(c)]
            callables = self._look_into(v for v in values if self._is_own(v, code))
            callables += list(self._kinds)[known:]
        self._undo += code.undo
        self._undo += [_class_kept(k) for k in {*self._kinds, *code.classes} if not _is_of_library(k)]

    def _look_into(self, models: Iterable[Any]) -> list[Any]:
        """Note the state of objects and of all that they hold; returns the callables among these."""
        callables: list[Any] = []
        waiting = [value for value in models if type(value) not in USUAL_ATOMS]
        while waiting:
            found = waiting.pop()
            if id(found) in self._seen:
                continue
            self._seen[id(found)] = found
            sort = self._sorts.get(type(found))
            if sort is None:
                sort = self._sort(found)
                if type(found) not in weakref.ProxyTypes:  # each passes for what it refers to
                    self._sorts[type(found)] = sort
            held: Iterable[Any] = ()
            if sort == "tensor":
                self.tensors.append(found)
            elif sort == "code":
                callables.append(found)
            elif sort == "tuple":
                held = found
            elif sort == "container":
                self._undo.append(container_kept(found))
                held = list(found.values()) if isinstance(found, MutableMapping) else found
            elif sort == "object":
                attributes = getattr(found, "__dict__", None)
                if type(attributes) is dict:
                    self._kinds.update(dict.fromkeys(type(found).__mro__))
                    self._undo.append(container_kept(attributes))
                    held = attributes.values()
            waiting += [value for value in held if type(value) not in USUAL_ATOMS]
        return callables

    def _sort(self, found: Any) -> str:
        """Return what an object is looked into as, which its type says: "" for not at all."""
        if isinstance(found, _ATOMS):
            return ""
        if self._is_tensor(found):
            return "tensor"
        if isinstance(found, tuple):
            return "tuple"
        if type(found) in _CONTAINERS:
            return "container"
        if isinstance(found, CALLABLES):
            return "code"
        return "object" if self._is_module(found) or not _is_of_library(type(found)) else ""

    def _is_own(self, found: Any, code: ReachedCode) -> bool:
        """Whether an object at a global name is the model's: of others, only containers and code count."""
        sort = self._sort(found)
        return sort != "object" or code.is_own(type(found).__module__)

    def restore(self) -> None:
        """Put everything back, in place; what has not changed is not touched."""
        for undo in self._undo:
            undo()


def container_kept(found: Any) -> Callable[[], None]:
    """Return the function that restores the contents of a container, with their order, if they change."""
    if isinstance(found, MutableMapping):
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
