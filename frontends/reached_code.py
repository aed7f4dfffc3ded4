"""Finds objects outside a model that its code reaches: globals, closures, defaults, caches of functools."""

from __future__ import annotations

import functools
import gc
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from dis import get_instructions, opmap
from typing import Any

_Undo = Callable[[], bool]
_MISSING = object()
_ENTRIES = frozenset({"forward", "construct"})
"""The methods by which a framework runs a module; those with two underscores are run by Python."""
_CONSTRUCTORS = frozenset({"__init__", "__new__", "__post_init__", "__init_subclass__"})
"""Methods that make an object: of a class whose objects are there already they count where code names it."""
_ROOTS = frozenset({"torch.nn.modules.module", "mindspore.nn.cell", "builtins"})
"""Modules that define the classes of all modules: of their methods a call runs those with two underscores."""

_STORE_GLOBAL = opmap["STORE_GLOBAL"]
_CACHED = type(functools.cache(len))
_WRAPPERS = (
    *(staticmethod, classmethod, property, functools.cached_property, functools.partial),
    *(functools.partialmethod, types.MethodType, _CACHED),
)
CALLABLES = (types.FunctionType, type, *_WRAPPERS)
"""Types of what has code that can be read."""

_LIBRARIES = sys.stdlib_module_names | {"torch", "mindspore", "numpy", "regraft"}


class ReachedCode:
    """Functions that calls of a model may run, found by the names in their code; nothing is run.

    A method counts from the time that some code has its name, or where a framework's class has one of that
    name, so that what only constructs, loads or saves a model is left out. Of packages that are not the
    model's own, caches of functools count and nothing else: they may have threads that change what they hold.

    Args:
        own: the names of the Python modules that define the model's classes and functions.

    Attributes:
        keep: functions that note global names and closures that the code assigns, and caches of functools;
            each returns the function that puts them back, and empties caches of what has been added since.
        classes: the model's own among those found.
    """

    def __init__(self, own: Iterable[str | None]) -> None:
        self.keep: list[Callable[[], _Undo]] = []
        self.classes: list[type] = []
        self._own = {_package(name) for name in own} - _LIBRARIES
        self._names: set[str] = set()
        self._waiting: dict[str, list[Any]] = {}
        self._constructors: dict[int, list[Any]] = {}
        self._seen: dict[int, Any] = {}
        self._values: list[Any] = []

    def is_own(self, name: str | None) -> bool:
        """Whether a Python module is in a package of the model's classes, or in no installed one."""
        package = _package(name)
        return package in self._own or not (package in _LIBRARIES or _is_installed(package))

    @property
    def functions(self) -> frozenset[types.FunctionType]:
        """The functions found."""
        return frozenset(f for f in self._seen.values() if isinstance(f, types.FunctionType))

    def values_behind(self, found: Any) -> list[Any]:
        """Return what a function, a class or another callable gives access to, each object once."""
        return self._values_behind([found])

    def values_behind_objects(self, kind: type) -> list[Any]:
        """Return what the methods of objects that are there give access to, each object once."""
        todo: list[Any] = []
        for base in kind.__mro__:
            if id(base) not in self._seen:
                self._seen[id(base)] = base
                todo += self._of_class(base, constructs=False)
        return self._values_behind(todo)

    def _values_behind(self, todo: list[Any]) -> list[Any]:
        while todo:
            current = todo.pop()
            if id(current) in self._seen:
                todo += self._constructors.pop(id(current), ())
                continue
            self._seen[id(current)] = current  # held, so that no other takes its identity
            if isinstance(current, _WRAPPERS):
                todo += self._wrapped(current)
            elif isinstance(current, types.FunctionType):
                todo += self._of_function(current)
            elif isinstance(current, type):
                todo += self._of_class(current)
            else:
                self._values.append(current)
        values, self._values = self._values, []
        return values

    def _wrapped(self, found: Any) -> list[Any]:
        if isinstance(found, _CACHED):
            function = getattr(found, "__wrapped__", None)
            if _package(getattr(function, "__module__", None)) in _LIBRARIES:
                return []
            self.keep.append(functools.partial(_cache_kept, found))
            return [function]
        if isinstance(found, property):
            return [found.fget]
        if isinstance(found, types.MethodType):
            return [found.__func__, found.__self__]
        if isinstance(found, (functools.partial, functools.partialmethod)):
            return [found.func, *found.args, *found.keywords.values()]
        return [found.func if isinstance(found, functools.cached_property) else found.__func__]

    def _of_class(self, kind: type, *, constructs: bool = True) -> list[Any]:
        if not self.is_own(kind.__module__):
            return []
        self.classes.append(kind)
        ready: list[Any] = list(kind.__mro__[1:]) if constructs else []
        called = self._names | _ENTRIES
        of_libraries = [base for base in kind.__mro__ if _is_part_of_library(base)]
        for name, value in vars(kind).items():
            if name in _CONSTRUCTORS and not constructs:
                self._constructors.setdefault(id(kind), []).append(value)
            elif name in called or name.startswith("__") or any(hasattr(b, name) for b in of_libraries):
                ready.append(value)
            else:
                self._waiting.setdefault(name, []).append(value)
        own = [v for n, v in vars(kind).items() if not n.startswith("__") and not isinstance(v, CALLABLES)]
        return [v for v in ready if isinstance(v, CALLABLES)] + [v for v in own if hasattr(v, "__dict__")]

    def _of_function(self, function: types.FunctionType) -> list[Any]:
        if _package(function.__module__) in _LIBRARIES:
            return []
        codes = list(_nested(function.__code__))
        names = {name for code in codes for name in code.co_names}
        home = function.__globals__
        found = [home[name] for name in names if name in home]
        for value in [v for v in found if isinstance(v, types.ModuleType)]:
            if _package(value.__name__) not in _LIBRARIES:
                found += [vars(value)[name] for name in names if name in vars(value)]
        found = [v for v in found if not isinstance(v, types.ModuleType)]
        if not self.is_own(function.__module__):
            return [v for v in found if isinstance(v, (types.FunctionType, _CACHED))]
        stored = {name for code in codes for name in _stored_globals(code)}
        if stored:
            self.keep.append(functools.partial(_names_kept, home, stored))
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            self.keep.append(functools.partial(_cell_kept, cell))
            if name != "__class__":  # of `super()`, which makes no object
                found += _contents(cell)
        found += [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
        found.append(function.__dict__)
        if "__class__" in names:  # which may make another object of it
            found += [v for values in self._constructors.values() for v in values]
        if "getattr" in names:
            names |= self._names_built(codes)
        for name in names - self._names:
            found += [v for v in self._waiting.pop(name, ()) if isinstance(v, CALLABLES)]
        self._names |= names
        return found

    def _names_built(self, codes: Iterable[types.CodeType]) -> set[str]:
        """Return the names that methods wait by and that code with `getattr` may make of its strings."""
        strings = [c for code in codes for c in code.co_consts if isinstance(c, str)]
        begun = tuple(s for s in strings if s.isidentifier() and s.strip("_"))
        return {name for name in self._waiting if name.startswith(begun)}


def _is_part_of_library(kind: type) -> bool:
    """Whether a class is a framework's, whose code may call what a class derived of it replaces."""
    return kind.__module__ not in _ROOTS and _package(kind.__module__) in _LIBRARIES


def _package(name: str | None) -> str:
    return (name or "").partition(".")[0]


@functools.cache
def _is_installed(package: str) -> bool:
    """Whether a package lies where pip puts packages, rather than beside the user's model."""
    file = getattr(sys.modules.get(package), "__file__", None) or ""
    return "site-packages" in file or "dist-packages" in file


def _nested(code: types.CodeType) -> Iterator[types.CodeType]:
    """Yield a function's code and that of the functions inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _nested(constant)


def _stored_globals(code: types.CodeType) -> Iterable[str]:
    if _STORE_GLOBAL not in code.co_code[::2]:
        return ()
    return {step.argval for step in get_instructions(code) if step.opcode == _STORE_GLOBAL}


def _contents(cell: types.CellType) -> list[Any]:
    try:
        return [cell.cell_contents]
    except ValueError:  # empty as yet
        return []


def _cell_kept(cell: types.CellType) -> _Undo:
    before = _contents(cell)

    def undo() -> bool:
        now = _contents(cell)
        if before and not (now and now[0] is before[0]):
            cell.cell_contents = before[0]
        elif now and not before:
            del cell.cell_contents
        else:
            return False
        return True

    return undo


def _names_kept(home: dict[str, Any], names: Iterable[str]) -> _Undo:
    before = {name: home.get(name, _MISSING) for name in names}

    def undo() -> bool:
        changed = [name for name, value in before.items() if home.get(name, _MISSING) is not value]
        for name in changed:
            if before[name] is _MISSING:
                home.pop(name, None)
            else:
                home[name] = before[name]
        return bool(changed)

    return undo


def _cache_kept(cached: Any) -> _Undo:
    """Return the function that removes the entries that calls have added to a cache since.

    A cache's entries change no result, so that it tells of no change. Entries that a full cache has given up
    for those are computed anew when they are next asked for.
    """
    before = cached.cache_info()
    keys = set(_entries_of(cached) or ()) if before.currsize else set()

    def undo() -> bool:
        if cached.cache_info().misses == before.misses and cached.cache_info().currsize >= before.currsize:
            return False
        entries = _entries_of(cached)
        if not keys or entries is None:
            cached.cache_clear()
            return False
        for key in set(entries) - keys:
            del entries[key]  # which the cache takes for the deed of another thread
        return False

    return undo


def _entries_of(cached: Any) -> dict[Any, Any] | None:
    """Return the dict in which a cache of functools looks its entries up; None where Python hides it."""
    held = gc.get_referents(cached)
    own = [i for i, value in enumerate(held) if value is cached.__wrapped__]
    found = held[own[-1] - 1] if own and own[-1] else None
    return found if type(found) is dict else None
