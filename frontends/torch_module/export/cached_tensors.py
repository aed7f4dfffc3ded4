"""Tensors that a module keeps of an earlier call: computed anew, so that the parameters behind them train."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from dis import get_instructions
from types import FunctionType
from typing import TYPE_CHECKING, Any

from .decided_sizes import differ
from .evaluation_mode import dry_run, evaluation

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram
    from torch.nn import Module

    from ..modules.live_state import Untouched

_WAYS = ("compil", "export", "trac", "dynamo", "proxy", "fake", "script")
_REGISTERED = ("_parameters", "_buffers", "_modules")


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """Tensors in a plain attribute of a module, or at a key of a plain dict that is one.

    Attributes:
        module: the module.
        name: of the attribute.
        key: the key alone in a tuple, or () for the attribute itself.
        value: a tensor, or a tuple, list or dict with tensors or layers.
        place: the attribute's path, for messages.
    """

    module: Module
    name: str
    key: tuple[Any, ...]
    value: Any
    place: str

    def now(self) -> Any:
        """Return the current value."""
        held = self.module.__dict__.get(self.name)
        return held.get(*self.key) if self.key and isinstance(held, dict) else held

    def remove(self, *, blank: bool) -> None:
        """Take the key away, or the attribute; `blank`: leave the attribute with None."""
        attributes = self.module.__dict__
        if self.key:
            attributes[self.name].pop(*self.key)
        elif blank:
            attributes[self.name] = None
        else:
            del attributes[self.name]


@dataclass(slots=True)
class Caches:
    """The tensors that a program reads from plain attributes.

    Attributes:
        refilled: what a call fills with the same values again where it was taken away, and how: `blank`.
        changed: what it fills with other values.
        kept: everything else.
        registered: identities of the tensors that the module registers, under other names too.
    """

    refilled: dict[Entry, bool] = field(default_factory=dict)
    changed: list[Entry] = field(default_factory=list)
    kept: list[Entry] = field(default_factory=list)
    registered: frozenset[int] = frozenset()

    @contextmanager
    def empty_caches(self, module: Module) -> Iterator[None]:
        """Restore a module, in a with block, to its state before the call that filled its caches."""
        with evaluation(module):
            for entry, blank in self.refilled.items():
                entry.remove(blank=blank)
            yield

    def notes(self) -> list[str]:
        """Return notes on those that are constants of the graph."""
        trained = [e for e in self.kept if any(t.requires_grad for t in _tensors(e.value))]
        trained = [e for e in trained if not all(id(t) in self.registered for t in _tensors(e.value))]
        return [
            *(
                f"`{place}` holds what an earlier call computed, and a call would compute something else "
                "now: it is a constant in the graph, as the model itself uses it; empty it before loading"
                for place in dict.fromkeys(e.place for e in self.changed)
            ),
            *(
                f"`{place}` requires gradients and is not registered: a constant in the graph, not trained"
                for place in dict.fromkeys(e.place for e in trained)
            ),
        ]


def entries_read(program: ExportedProgram, module: Module) -> list[Entry]:
    """Return the entries of a module's plain attributes that are constants of a program."""
    constants = {_memory(t) for c in program.constants.values() for t in _tensors(c)}
    if not constants:
        return []
    return [e for e in entries_of(module) if any(_memory(t) in constants for t in _tensors(e.value))]


def registered_constants(program: ExportedProgram, module: Module) -> dict[str, torch.Tensor]:
    """The constants of a program that are parameters of the module, by name: those of layers in a plain list.

    torch puts its own tensors in the place of those that it finds by registered paths alone.
    """
    if not program.constants:
        return {}
    registered = {id(t) for t in _registered(module)}
    held = {_memory(t): t for e in entries_of(module) for t in _tensors(e.value) if id(t) in registered}
    return {
        name: held[memory]
        for name, value in program.constants.items()
        for memory in map(_memory, _tensors(value))
        if memory in held
    }


def kept_between_calls(
    module: Module,
    call: Callable[[], object],
    other_call: Callable[[], object],
    *,
    assigns: bool,
    kept: Untouched,
    leaves_nothing: Callable[[], bool],
) -> list[str]:
    """Return notes on attributes that a first call fills of its inputs, and that later calls go on to use.

    Args:
        module: the model.
        call: calls it.
        other_call: calls it on other inputs.
        assigns: whether it assigned an attribute, or changed what one holds, while it was traced. Otherwise
            only code that asks whether it is traced is a reason to call anything.
        kept: what dry runs of it share.
        leaves_nothing: whether a call outside of a trace surely fills nothing.
    """
    kinds = {base for m in module.modules() for base in type(m).__mro__}
    if not any(_may_keep(kind, kept.functions) for kind in kinds):
        return []
    if (not assigns and not any(map(_asks_for_tracing, kinds))) or leaves_nothing():
        return []
    before = {(id(e.module), e.name) for e in entries_of(module)}
    try:
        with dry_run(module, kept):
            call()
            filled = [e for e in entries_of(module) if (id(e.module), e.name) not in before]
            if not filled:
                return []
            after = other_call()
            stayed = [e for e in filled if e.now() is e.value]
        with dry_run(module, kept):
            alone = other_call()
    except Exception:  # the model's own code may raise anything
        return []
    if not stayed or not differ(alone, after):
        return []
    return [
        f"`{place}` keeps a result of the first call, which later calls of the model use: the graph "
        f"computes it in each call"
        for place in dict.fromkeys(e.place for e in stayed)
    ]


def _may_keep(kind: type, functions: Collection[FunctionType]) -> bool:
    """Whether a method of a class, other than those that make a module, assigns an attribute and reads it."""
    if kind.__module__.partition(".")[0] == "torch":
        return False
    own = [v for n, v in vars(kind).items() if isinstance(v, FunctionType) and n != "__init__"]
    methods = [method for method in own if method in functions]
    steps = [step for method in methods for step in get_instructions(method.__code__)]
    stored = {step.argval for step in steps if step.opname == "STORE_ATTR"}
    return any(step.opname == "LOAD_ATTR" and step.argval in stored for step in steps)


def _asks_for_tracing(kind: type) -> bool:
    """Whether a method of a class that is not torch's asks in which way it is run."""
    methods = () if kind.__module__.partition(".")[0] == "torch" else vars(kind).values()
    names = {n for m in methods if isinstance(m, FunctionType) for n in m.__code__.co_names}
    return any(n.startswith("is_") and any(way in n for way in _WAYS) for n in names)


def _registered(module: Module) -> list[torch.Tensor]:
    import torch

    kind = torch.nn.Module  # whose `parameters` an attribute of the module's own may hide
    return [*kind.parameters(module), *kind.buffers(module)]


def find_caches(
    module: Module, entries: Sequence[Entry], call: Callable[[], object], other_call: Callable[[], object]
) -> Caches:
    """Find which entries are caches, by calls of the model in evaluation mode.

    All are taken away together first; where the model then fails or leaves some empty, those of one class
    and attribute after another. What a call on other inputs fills with other values is made of the inputs of
    an earlier call, which the model goes on to use.
    """
    found = Caches(kept=list(entries), registered=frozenset(map(id, _registered(module))))
    groups: dict[tuple[type, str], list[Entry]] = {}
    for entry in entries:
        groups.setdefault((type(entry.module), entry.name), []).append(entry)
    attempts = [list(entries), *(groups.values() if len(groups) > 1 else ())]
    for attempt in attempts:
        for blank in (True, False):
            waiting = [e for e in attempt if e in found.kept]
            for entry, value in _after_a_call(module, dict.fromkeys(waiting, blank), call):
                same = _same(value, entry.value)
                if same is not None:
                    found.kept.remove(entry)
                    if same:
                        found.refilled[entry] = blank
                    else:
                        found.changed.append(entry)
    again = _after_a_call(module, found.refilled, other_call)
    differing = [*found.changed, *(e for e, value in again if _same(value, e.value) is False)]
    modules = {id(e.module) for e in differing}
    for entry in [e for e in found.refilled if id(e.module) in modules]:  # a module fills its own at once
        del found.refilled[entry]
        found.changed.append(entry)
    return found


def _after_a_call(
    module: Module, entries: Mapping[Entry, bool], call: Callable[[], object]
) -> list[tuple[Entry, Any]]:
    """Return the entries that a call of the model fills in; none if it fails without them.

    Args:
        module: the model.
        entries: what is taken away, and whether None is left in its place.
        call: calls the model.
    """
    if not entries:
        return []
    with dry_run(module):
        for entry, blank in entries.items():
            entry.remove(blank=blank)
        try:
            call()
        except Exception:  # the model's own code may raise anything
            return []
        return [(entry, entry.now()) for entry in entries]


def _same(found: Any, kept: Any) -> bool | None:
    """Whether two values hold equal tensors; None where they are no tensors of the same shapes and types."""
    import torch

    a, b = _tensors(found), _tensors(kept)
    if len(a) != len(b) or any(x.shape != y.shape or x.dtype != y.dtype for x, y in zip(a, b, strict=True)):
        return None
    return all(torch.allclose(x, y, equal_nan=True) for x, y in zip(a, b, strict=True))


def entries_of(module: Module) -> Iterator[Entry]:
    """Everything outside the registered parameters and buffers that holds tensors."""
    for path, m in module.named_modules():
        for name, value in m.__dict__.items():
            place = f"{path}.{name}" if path else name
            if name in _REGISTERED:
                continue
            if type(value) in (dict, OrderedDict):
                for key, held in value.items():
                    if _tensors(held):
                        yield Entry(m, name, (key,), held, place)
            elif _tensors(value):
                yield Entry(m, name, (), value, place)


def _tensors(value: Any) -> list[torch.Tensor]:
    """Yield the tensors in a nest of Python's containers, with the parameters of layers in it."""
    import torch
    import torch.utils._pytree as pytree

    if isinstance(value, torch.Tensor):
        return [value]
    if type(value) not in (tuple, list, dict, OrderedDict):
        return []
    found: list[torch.Tensor] = []
    for leaf in pytree.tree_leaves(value):
        if isinstance(leaf, torch.nn.Module):
            found += torch.nn.Module.parameters(leaf)
        elif isinstance(leaf, torch.Tensor):
            found.append(leaf)
    return found


def _memory(tensor: torch.Tensor) -> tuple[Any, ...]:
    return tensor.data_ptr(), tuple(tensor.shape), tensor.stride()
