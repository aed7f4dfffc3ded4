"""Runs of equal modules while calls are looked at, on tensors without values: the first runs, others repeat.

As in `repeated_calls`, what a call does follows from its code, from the state of its modules and from its
arguments. Here its result is tensors of the same sizes, and what is looked at is repeated at other paths.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .module_likeness import (
    OpenReads,
    Unlike,
    argument_described,
    equal_modules,
    identities,
    mapped,
    reads_noted,
    varying_attributes,
)
from .patches import original, patched
from .tracer_state import modes, state_of_numpy

if TYPE_CHECKING:
    from torch.nn import Module

_MODULE = "torch.nn:Module"


@dataclass(frozen=True, slots=True)
class Seen:
    """One thing that a module's own forward does.

    Attributes:
        caller: the module.
        what: the name of a function with its numbers, or empty; or a module that it calls.
        idle: whether training is as inference, of a dropout or a batch_norm; None of all else.
    """

    caller: Module
    what: str | Module
    idle: bool | None = None


@dataclass(frozen=True, slots=True)
class _Sizes:
    """A new tensor of a result: sizes, strides, element type and device."""

    layout: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class _Place:
    """A tensor of a result that was given, by its place among those given."""

    at: int


@dataclass(slots=True)
class _Run:
    """The record of a run.

    Attributes:
        modules: the modules in it, in order.
        seen: things that were seen.
        result: its result, with `_Sizes` and `_Place` for tensors.
        read: place of a module and attribute -> value, of attributes that vary.
    """

    modules: list[Module]
    seen: list[Seen]
    result: Any
    read: dict[tuple[int, str], Any]


@dataclass(slots=True)
class RepeatedRuns:
    """Repeats runs of equal modules.

    Args:
        root: the model, without hooks of ours.
        seen: what was seen so far, to which what a repeated run would have shown is added.
        note_call: adds that a module is called.

    Attributes:
        count: how many runs were repeated.
    """

    root: Module
    seen: list[Seen]
    note_call: Callable[[Module], None]
    count: int = 0
    _numbers: Mapping[int, int] = field(default_factory=dict)
    _varying: Any = None
    _runs: dict[Any, list[_Run]] = field(default_factory=dict)
    _inside: dict[int, tuple[list[Module], Any]] = field(default_factory=dict)
    _reads: OpenReads = field(default_factory=OpenReads)
    _changes: int = 0
    _held: list[Any] = field(default_factory=list)  # so that no other tensor takes an identity

    def __post_init__(self) -> None:
        import torch

        self._varying = varying_attributes(torch.nn.Module.modules(self.root))
        self._numbers = equal_modules(self.root, self._varying)

    @contextmanager
    def repeating(self) -> Iterator[None]:
        """Repeat runs inside the block."""
        call, assign = original(_MODULE, "_call_impl"), original(_MODULE, "__setattr__")
        if call is None or not self._numbers:
            yield
            return

        def called(module: Module, *args: Any, **kwargs: Any) -> Any:
            if id(module) not in self._numbers or not (module._modules or _is_own(module)):
                return call(
                    module, *args, **kwargs
                )  # to compare a layer of torch's costs more than to run it
            return self._run(call, module, args, kwargs)

        def assigning(module: Module, name: str, value: Any) -> None:
            self._changes += 1
            assign(module, name, value)

        with (
            reads_noted(self._varying, self._reads.note),
            patched(_MODULE, _call_impl=called, __setattr__=assigning),
        ):
            yield

    def note_values(self) -> None:
        """Note that code asks for values, which equal modules need not share."""
        self._changes += 1

    def _run(self, call: Callable[..., Any], module: Module, args: Any, kwargs: Any) -> Any:
        import torch

        tensors: list[Any] = []
        with torch._C.DisableTorchFunction():
            try:
                key = self._key(module, (args, kwargs), tensors)
            except Unlike:
                key = None
            run = None if key is None else self._find(key, module)
            if run is not None:
                return self._repeat(run, module, tensors)
        if key is None:
            return call(module, *args, **kwargs)
        reads: dict[tuple[int, str], Any] = {}
        first, before = len(self.seen), self._outside()
        self._reads.append(reads)
        try:
            result = call(module, *args, **kwargs)
        finally:
            self._reads.pop()
        with torch._C.DisableTorchFunction(), suppress(Unlike):
            if before == self._outside() and argument_described((args, kwargs), []) == key[1]:
                self._held += tensors
                self._note(key, module, self.seen[first:], _placed(result, tensors), reads)
        return result

    def _outside(self) -> Any:
        return self._changes, random.getstate(), state_of_numpy()

    def _key(self, module: Module, arguments: Any, tensors: list[Any]) -> Any:
        given = argument_described(arguments, tensors)
        known = tuple([0 if _is_plain(t) else id(t) for t in tensors])
        _, pattern = self._modules_in(module)
        pattern = pattern, identities(map(id, tensors)), known
        return self._numbers[id(module)], given, pattern, self._changes, modes()

    def _modules_in(self, module: Module) -> tuple[list[Module], Any]:
        """Return the modules in a module, itself first, and which of them and of their tensors are one."""
        if id(module) not in self._inside:
            modules: list[Module] = []

            def visit(found: Module) -> None:
                modules.append(found)
                for child in found._modules.values():
                    if child is not None:
                        visit(child)

            visit(module)
            held = [t for m in modules for table in (m._parameters, m._buffers) for t in table.values()]
            pattern = identities(map(id, modules)), identities(map(id, held))
            self._inside[id(module)] = modules, pattern
        return self._inside[id(module)]

    def _find(self, key: Any, module: Module) -> _Run | None:
        """Return an equal run, and note what this one would have read."""
        modules, _ = self._modules_in(module)
        return next((run for run in self._runs.get(key, ()) if self._reads.repeat(run.read, modules)), None)

    def _note(self, key: Any, module: Module, seen: list[Seen], result: Any, reads: Any) -> None:
        modules, _ = self._modules_in(module)
        places = {id(m): at for at, m in reversed(list(enumerate(modules)))}
        if seen and id(seen[0].caller) not in places and seen[0].what is module:
            seen = seen[1:]  # the call itself, by its caller
        inside = [*(s.caller for s in seen), *(s.what for s in seen if not isinstance(s.what, str))]
        if any(id(m) not in places for m in inside) or any(i not in places for i, _ in reads):
            raise Unlike
        read = {(places[i], name): value for (i, name), value in reads.items()}
        self._runs.setdefault(key, []).append(_Run(modules, seen, result, read))

    def _repeat(self, run: _Run, module: Module, tensors: list[Any]) -> Any:
        self.count += 1
        self.note_call(module)
        modules, _ = self._modules_in(module)
        others = {id(a): b for a, b in zip(run.modules, modules, strict=True)}
        self.seen += [
            Seen(others[id(s.caller)], s.what if isinstance(s.what, str) else others[id(s.what)], s.idle)
            for s in run.seen
        ]
        return _built(run.result, tensors)


def _is_own(module: Module) -> bool:
    return not type(module).__module__.startswith("torch.nn.")


def _is_plain(tensor: Any) -> bool:
    """Whether a tensor has no values that code could ask for."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensor

    if type(tensor) is FakeTensor:
        return tensor.constant is None
    return type(tensor) is torch.Tensor and tensor.device.type == "meta"


def _placed(result: Any, given: list[Any]) -> Any:
    """Return a result with `_Sizes` and `_Place` for tensors.

    Raises:
        Unlike: when it is or holds anything else than arguments may.
    """
    import torch

    places = {id(t): at for at, t in reversed(list(enumerate(given)))}
    argument_described(result, [])

    def placed(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if id(value) in places:
            return _Place(places[id(value)])
        if not _is_plain(value) or value.requires_grad:
            raise Unlike
        return _Sizes((tuple(value.shape), value.stride(), value.dtype, value.device))

    return mapped(result, placed)


def _built(result: Any, given: list[Any]) -> Any:
    import torch

    def built(value: Any) -> Any:
        if type(value) is _Place:
            return given[value.at]
        if type(value) is not _Sizes:
            return value
        shape, strides, dtype, device = value.layout
        return torch.empty_strided(shape, strides, dtype=dtype, device=device)

    return mapped(result, built)
