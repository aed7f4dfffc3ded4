"""Restores the objects of a live model, and those that its code can reach, to their former state."""

from __future__ import annotations

import copy
import types
import weakref
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, MutableMapping
from functools import partial
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
        has_changed: whether `restore` found anything to put back.
        functions: the functions that calls of the models may run.
    """

    def __init__(
        self, models: Iterable[Any], is_module: Callable[[Any], bool], is_tensor: Callable[[Any], bool]
    ) -> None:
        self.tensors: list[Any] = []
        self.has_changed = False
        self._keep: list[Callable[[], Callable[[], bool]]] = []  # each notes the state of an object
        self._empty: list[Any] = []
        self._is_module, self._is_tensor = is_module, is_tensor
        self._seen: dict[int, Any] = {}  # alive, so that no other object gets an id of theirs
        self._kinds: dict[type, None] = {}
        self._sorts: dict[type, str] = {}
        callables = self._look_into(models)
        classes = [k for k in self._kinds if not _is_of_library(k)]
        code = ReachedCode([c.__module__ for c in (*classes, *callables) if hasattr(c, "__module__")])
        while callables or classes:
            known = len(self._kinds)
            values = [v for c in classes for v in code.values_behind_objects(c)]
            values += [v for c in callables for v in code.values_behind(c)]
            callables = self._look_into(v for v in values if self._is_own(v, code))
            classes = list(self._kinds)[known:]
        self.functions: frozenset[types.FunctionType] = code.functions
        self._keep += code.keep
        self._keep += [
            partial(_class_kept, k) for k in {*self._kinds, *code.classes} if not _is_of_library(k)
        ]
        self._undo = [keep() for keep in self._keep]

    def again(self) -> Snapshot:
        """Return the state of the same objects now, where no code of the models has run since."""
        found = copy.copy(self)
        found.has_changed = False
        found._empty = [container for container in self._empty if not container]
        filled = [partial(container_kept, container) for container in self._empty if container]
        found._keep = [*self._keep, *filled]
        found._undo = [keep() for keep in found._keep]
        return found

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
            elif sort == "container" and not found:
                self._empty.append(found)
            elif sort == "container":
                self._keep.append(partial(container_kept, found))
                held = list(found.values()) if isinstance(found, MutableMapping) else found
            elif sort == "object":
                attributes = getattr(found, "__dict__", None)
                if type(attributes) is dict:
                    self._kinds.update(dict.fromkeys(type(found).__mro__))
                    self._keep.append(partial(container_kept, attributes))
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
        plain = type(found) is types.SimpleNamespace
        return sort != "object" or plain or code.is_own(type(found).__module__)

    def restore(self) -> None:
        """Put everything back, in place; what has not changed is not touched."""
        for filled in filter(None, self._empty):
            filled.clear()
            self.has_changed = True
        for undo in self._undo:
            if undo():
                self.has_changed = True


def container_kept(found: Any) -> Callable[[], bool]:
    """Return the function that restores the contents of a container, with their order, if they changed.

    As all such functions it returns whether they did; a copy is no change.
    """
    if isinstance(found, MutableMapping):
        items = dict(found)

        def undo_items() -> bool:
            same = len(found) == len(items) and all(map(is_, found, items))
            if same and all(map(is_, found.values(), items.values())):
                return False
            same = _alike(dict(found), items)
            found.clear()
            found.update(items)
            return not same

        return undo_items
    before = list(found)

    def undo() -> bool:
        if len(found) == len(before) and all(map(is_, found, before)):
            return False
        same = _alike(list(found), before)
        found.clear()
        (found.update if isinstance(found, set) else found.extend)(before)
        return not same

    return undo


def _alike(a: Any, b: Any) -> bool:
    """Whether two objects are the same, or containers of the same."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if type(a) in USUAL_ATOMS or type(a) is set:
        return bool(a == b)
    if type(a) in (list, tuple):
        return len(a) == len(b) and all(map(_alike, a, b))
    return type(a) in (dict, OrderedDict) and list(a) == list(b) and all(map(_alike, a.values(), b.values()))


def _class_kept(kind: type) -> Callable[[], bool]:
    """A class, whose attributes may count calls or keep a cache for all its objects."""
    before = {n: v for n, v in vars(kind).items() if not n.startswith("__")}
    contents = [container_kept(v) for v in before.values() if type(v) in _CONTAINERS]

    def undo() -> bool:
        now = {n: v for n, v in vars(kind).items() if not n.startswith("__")}
        added = now.keys() - before.keys()
        replaced = [name for name, value in before.items() if now.get(name) is not value]
        for name in added:
            delattr(kind, name)
        for name in replaced:
            setattr(kind, name, before[name])
        return any([bool(added or replaced), *(each() for each in contents)])

    return undo


def _is_of_library(kind: type) -> bool:
    return kind.__module__.partition(".")[0] in _LIBRARIES
