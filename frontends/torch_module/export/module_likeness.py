"""The state of modules that a call of them can read: equal values for modules whose calls do the same."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from inspect import getattr_static
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from torch.nn import Module

Varying = Mapping[type, frozenset[str]]
"""Class of modules -> the attributes with plain values that are not the same in all of them."""

_PLAIN = frozenset({int, float, bool, str, bytes, complex, type(None)})
_OWN = frozenset({"_parameters", "_buffers", "_modules", "training", "_is_full_backward_hook"})
"""Attributes of every module that are looked at in another way, or change no call."""
_BY_ANY_NAME = frozenset({"__dict__", "vars", "__getattribute__", "__getstate__"})
"""Names in code that reads attributes without their names."""
_MISSING = object()
_DEPTH = 8


class OpenReads(list[dict[tuple[int, str], Any]]):
    """For each run that has not ended: (id of a module, name of an attribute) -> the value that code read."""

    def note(self, module: Any, name: str) -> None:
        """Note that code reads an attribute."""
        for reads in self:
            reads[id(module), name] = described(module.__dict__.get(name))

    def repeat(self, read: Mapping[tuple[Any, str], Any], modules: Any) -> bool:
        """Return whether a run of other modules would read the same; if so, note what it would read.

        Args:
            read: (place of a module, name of an attribute) -> the value that an earlier run read.
            modules: place -> the other module.
        """
        held = [
            (modules[at], name, value, described(modules[at].__dict__.get(name)))
            for (at, name), value in read.items()
        ]
        if any(value != now for _, _, value, now in held):
            return False
        for reads in self:
            reads.update({(id(module), name): now for module, name, _, now in held})
        return True


class Unlike(Exception):  # noqa: N818 - no error of anybody's: the call is traced
    """A call that may do anything else than one of an equal module."""


def state_of(
    module: Module, varying: Varying, tensors: list[Any], modules: dict[str, Module], path: str = ""
) -> Any:
    """Return what calls of a module can read in it and below it, without `varying`.

    Args:
        module: the module.
        varying: attributes that are left out; who reads them is told apart by `reads_noted`.
        tensors: gets its parameters and buffers.
        modules: gets the modules, by their path below the module.
        path: the path so far.

    Raises:
        Unlike: when hooks run with it.
    """
    modules[path] = module
    own = own_state_of(module, varying, tensors)
    children = tuple(
        (name, None if child is None else state_of(child, varying, tensors, modules, f"{path}.{name}"))
        for name, child in module._modules.items()
    )
    return own, children


def own_state_of(module: Module, varying: Varying, tensors: list[Any]) -> Any:
    """Return what `state_of` returns of the module itself; `tensors` gets its parameters and buffers."""
    kind = type(module)
    left_out = varying.get(kind, ())
    attributes = []
    for name, value in module.__dict__.items():
        if name in _OWN or (name in left_out and type(value) in _PLAIN):
            continue
        if "_hooks" in name and isinstance(value, dict):
            if value and "state_dict" not in name:
                raise Unlike
            continue
        attributes.append((name, described(value)))
    own = []
    for table in (module._parameters, module._buffers):
        for name, tensor in table.items():
            own.append((name, None if tensor is None else tensor_described(tensor)))
            if tensor is not None:
                tensors.append(tensor)
    return kind, module.training, tuple(attributes), tuple(own)


def equal_modules(root: Module, varying: Varying) -> dict[int, int]:
    """Return identity of a module -> the number of its state, of those whose state another has too.

    Two have one number where `state_of` returns the same of both.
    """
    numbers: dict[Any, int] = {}
    found: dict[int, int | None] = {}
    many: dict[int, int] = {}

    def visit(module: Module) -> int | None:
        known = found.get(id(module))
        if known is not None:
            many[known] += 1  # under another name
        if id(module) not in found:
            below = [(n, None if c is None else visit(c)) for n, c in module._modules.items()]
            number = None
            if all(n is not None or module._modules[name] is None for name, n in below):
                with suppress(Unlike):
                    own = own_state_of(module, varying, [])
                    number = numbers.setdefault((own, tuple(below)), len(numbers))
                    many[number] = many.get(number, 0) + 1
            found[id(module)] = number
        return found[id(module)]

    visit(root)
    return {i: number for i, number in found.items() if number is not None and many[number] > 1}


def tensor_described(tensor: torch.Tensor) -> Any:
    """Return what a trace reads of a tensor without values."""
    return (
        tuple(map(size_described, tensor.shape)),
        tuple(map(size_described, tensor.stride())),
        size_described(tensor.storage_offset()),
        tensor.dtype,
        tensor.device,
        tensor.requires_grad,
        tensor.is_conj(),
        tensor.is_neg(),
    )


def argument_described(value: Any, tensors: list[Any]) -> Any:
    """Return what a call reads of an argument without values; its tensors are added to `tensors`.

    Raises:
        Unlike: when it is or holds anything but tensors, plain values and Python's containers of them.
    """
    import torch

    kind = type(value)
    if isinstance(value, torch.Tensor):
        tensors.append(value)
        return torch.Tensor, tensor_described(value)
    if kind in (torch.SymInt, torch.SymFloat, torch.SymBool):
        return kind, value.node.expr
    if kind in (tuple, list, torch.Size):
        return kind, tuple([argument_described(v, tensors) for v in value])
    if kind is dict:
        return kind, tuple([(described(k), argument_described(v, tensors)) for k, v in value.items()])
    found = described(value)
    if found[0] is object:
        raise Unlike
    return found


def mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return an argument or a result that `argument_described` takes with its leaves changed."""
    kind = type(value)
    if kind in (tuple, list):
        return kind([mapped(v, change) for v in value])
    if kind is dict:
        return {k: mapped(v, change) for k, v in value.items()}
    return change(value)


def identities(values: Iterable[Any]) -> tuple[int, ...]:
    """Return numbers for values, the same for equal ones."""
    places: dict[Any, int] = {}
    return tuple([places.setdefault(value, len(places)) for value in values])


def size_described(size: Any) -> Any:
    """Return a size as a number, or as torch's expression of symbols."""
    return size if type(size) is int else size.node.expr


def described(value: Any, depth: int = 0) -> Any:
    """Return a hashable equivalent of a plain value, of a container or of a function, else the identity."""
    import torch

    kind = type(value)
    if kind is float or kind is complex:
        return kind, repr(value)  # the sign of zero counts
    if kind in _PLAIN or kind in (torch.dtype, torch.device):
        return kind, value
    if depth < _DEPTH:
        if kind in (tuple, list, torch.Size):
            return kind, tuple([described(v, depth + 1) for v in value])
        if kind in (set, frozenset):
            return kind, frozenset([described(v, depth + 1) for v in value])
        if kind in (dict, OrderedDict):
            items = [(described(k, depth + 1), described(v, depth + 1)) for k, v in value.items()]
            return kind, tuple(items)
        if kind is FunctionType:
            cells = [cell.cell_contents for cell in value.__closure__ or () if _is_full(cell)]
            held = (*cells, *(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values())
            return value.__code__, tuple([described(v, depth + 1) for v in held])
    return object, id(value)


def _is_full(cell: Any) -> bool:
    try:
        return bool(cell.cell_contents) or True
    except ValueError:
        return False


# -- attributes that vary ------------------------------------------------------------------------------


def varying_attributes(modules: Iterable[Module]) -> Varying:
    """Return the plain attributes that are not the same in all modules of a class, such as a layer's number.

    A class of torch has none: its modules read what they hold.
    """
    values: dict[type, dict[str, set[Any]]] = {}
    for module in modules:
        if not type(module).__module__.startswith("torch."):
            found = values.setdefault(type(module), {})
            for name, value in module.__dict__.items():
                if type(value) in _PLAIN and name not in _OWN:
                    found.setdefault(name, set()).add(described(value))
    varying = {
        kind: frozenset(n for n, v in found.items() if len(v) > 1 and _can_watch(kind, n))
        for kind, found in values.items()
    }
    return {kind: names for kind, names in varying.items() if names and not _reads_by_any_name(kind)}


def _can_watch(kind: type, name: str) -> bool:
    return not hasattr(type(getattr_static(kind, name, None)), "__set__")


def _reads_by_any_name(kind: type) -> bool:
    return any(
        _names(value.__code__) & _BY_ANY_NAME
        for base in kind.__mro__
        if not base.__module__.startswith("torch.")
        for value in vars(base).values()
        if isinstance(value, FunctionType)
    )


def _names(code: CodeType) -> set[str]:
    inner = [_names(c) for c in code.co_consts if isinstance(c, CodeType)]
    return set(code.co_names).union(*inner)


class _Watched:
    """An attribute in the place of a class's, which tells who reads it."""

    def __init__(self, name: str, default: Any, note: Callable[[Any, str], None]) -> None:
        self._name, self._default, self._note = name, default, note

    def __get__(self, instance: Any, owner: type) -> Any:
        held = _MISSING if instance is None else instance.__dict__.get(self._name, _MISSING)
        if held is _MISSING:
            if self._default is _MISSING:
                raise AttributeError(self._name)
            return self._default
        self._note(instance, self._name)
        return held

    def __set__(self, instance: Any, value: Any) -> None:
        instance.__dict__[self._name] = value

    def __delete__(self, instance: Any) -> None:
        if self._name not in instance.__dict__:
            raise AttributeError(self._name)
        del instance.__dict__[self._name]


@contextmanager
def reads_noted(varying: Varying, note: Callable[[Any, str], None]) -> Iterator[None]:
    """Call `note` with a module and a name whenever code reads one of these attributes, inside the block."""
    replaced: list[tuple[type, str, Any]] = []
    try:
        for kind, names in varying.items():
            for name in names:
                before = vars(kind).get(name, _MISSING)
                setattr(kind, name, _Watched(name, getattr(kind, name, _MISSING), note))
                replaced.append((kind, name, before))
        yield
    finally:
        for kind, name, before in reversed(replaced):
            if before is _MISSING:
                delattr(kind, name)
            else:
                setattr(kind, name, before)
