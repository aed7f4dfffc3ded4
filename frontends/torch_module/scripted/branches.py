"""Branches and loops on data in source text of TorchScript, as torch's `cond` and `while_loop`.

While a model is traced a tensor has no value, and text that asks for one is run both ways. The bodies
are functions of the tensors that they read: a first run finds these, a second is traced with others in their
places.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from ....ir import UnsupportedError
from .builtin_operators import RaisedError
from .grown_lists import ADVICE
from .impure import ImpureError
from .memory import MEMORY, memory_of, shares_memory, writes
from .numbers import DataNumber, Uninitialized


class WritesError(Exception):
    """A body writes into a tensor that it does not make.

    Attributes:
        tensor: that tensor, or one that shares its memory.
    """

    def __init__(self, tensor: torch.Tensor) -> None:
        super().__init__()
        self.tensor = tensor


@dataclass(slots=True)
class Body:
    """The values that a body leaves.

    Attributes:
        names: values of the names that it assigns.
        returned: a list of the value that it returns; empty if it goes on.
    """

    names: dict[str, Any]
    returned: list[Any]


def branch(condition: Any, yes: Callable[[], Body], no: Callable[[], Body]) -> Body:
    """Return what an `if` on a tensor leaves.

    Args:
        condition: the truth value, a `DataNumber`.
        yes: runs the body; again and again.
        no: runs the other.

    Raises:
        ImpureError: where the bodies are no two functions of tensors with results of one kind.
        RaisedError: where a body raises.
    """
    written: list[torch.Tensor] = []
    tried = _Tried(written)
    outcomes, outer = zip(*tried(lambda: [_tried(body, written) for body in (yes, no)]), strict=True)
    names = _names_after(*(each.names for each in outcomes))
    if len({len(each.returned) for each in outcomes}) > 1:
        raise ImpureError("one of its branches returns")
    leaves, specs = zip(*(pytree.tree_flatten(_left(each, names)) for each in outcomes), strict=True)
    if specs[0] != specs[1]:
        raise ImpureError("its branches give values of different structure")
    kinds = [_kind(a, b) for a, b in zip(*leaves, strict=True)]
    operands = _operands(outer)
    count = len(written)

    def traced(body: Callable[[], Body]) -> Callable[..., list[torch.Tensor]]:
        def run(*given: torch.Tensor) -> list[torch.Tensor]:
            copies = [tensor.clone() for tensor in given[:count]]
            with _in_place_of([*written, *operands], [*copies, *given[count:]]):
                found = pytree.tree_leaves(_left(body(), names))
                others = zip(found, kinds, *leaves, strict=True)
                left = [_as_tensor(v, kind, a, b) for v, kind, a, b in others if kind is not None]
            return [*copies, *left]

        return run

    asked = _now(condition.tensor)
    given = tuple(map(_now, [*written, *operands]))
    results = (
        iter(torch.ops.higher_order.cond(asked, traced(yes), traced(no), given))
        if written or any(kind is not None for kind in kinds)
        else iter(())
    )
    for tensor in written:
        tensor.copy_(next(results))
    values = [
        a if kind is None else _given_back(next(results), kind)
        for kind, a in zip(kinds, leaves[0], strict=True)
    ]
    for value, *ways in zip(values, *leaves, strict=True):
        shared = [way for way, seen in zip(ways, outer, strict=True) if _is_outside(way, seen)]
        if isinstance(value, torch.Tensor) and shared:
            MEMORY.doubt(value, shared)
    kept, returned = pytree.tree_unflatten(values, specs[0])
    return Body(kept, returned)


def _is_outside(value: Any, outside: Mapping[int, torch.Tensor]) -> bool:
    """Whether a value that a body leaves is memory from around it."""
    return isinstance(value, torch.Tensor) and any(shares_memory(value, t) for t in outside.values())


def loop(
    carried: Mapping[str, Any],
    test: Callable[[Mapping[str, Any]], Any],
    body: Callable[[Mapping[str, Any]], Mapping[str, Any]],
) -> dict[str, Any]:
    """Return the names that a loop on data carries, after its last turn.

    Args:
        carried: name -> its value before the first turn.
        test: whether there is another turn, of the values of those names.
        body: their values after a turn.

    Raises:
        ImpureError: where the body is no function of tensors, or changes the shape of one.
    """
    kinds = {name: _carried_kind(name, value) for name, value in carried.items()}
    first = [_as_tensor(value, kinds[name], value, value) for name, value in carried.items()]

    def values(tensors: Sequence[torch.Tensor]) -> dict[str, Any]:
        pairs = zip(kinds.items(), tensors, strict=True)
        return {name: _given_back(tensor, kind) for (name, kind), tensor in pairs}

    written: list[torch.Tensor] = []
    copied: set[str] = set()

    def start(tensors: Sequence[torch.Tensor]) -> dict[str, Any]:
        """Return the values before a turn, copies of those that it writes into."""
        pairs = zip(kinds, tensors, strict=True)
        return values([tensor.clone() if name in copied else tensor for name, tensor in pairs])

    def once() -> _Watching:
        pairs = zip(kinds, first, strict=True)
        copied.update(name for name, t in pairs if any(shares_memory(t, w) for w in written))
        written[:] = [w for w in written if not any(shares_memory(w, t) for t in first)]
        with disable_proxy_modes_tracing(), _Watching(first) as watching:
            copies = [tensor.clone() for tensor in written]
            watching.outside.clear()
            with _in_place_of(written, copies):
                if not isinstance(test(values(first)), DataNumber):
                    raise ImpureError("its condition is a number in the second turn")
                before = start(first)
                after = body(before)
            for name, tensor in zip(kinds, first, strict=True):
                new = _as_tensor(after[name], kinds[name], after[name], after[name])
                if (new.dtype, tuple(new.shape)) != (tensor.dtype, tuple(tensor.shape)):
                    raise ImpureError(f"it changes the shape or element type of `{name}`")
                if name in copied and after[name] is not before[name]:
                    raise ImpureError(f"it writes into `{name}` and gives it another tensor")
        _require_apart(written, watching.outside)
        return watching

    watching = _Tried(written)(once)
    operands = _operands([watching.outside])
    count, total = len(first), len(first) + len(written)

    def goes_on(*given: torch.Tensor) -> torch.Tensor:
        with _in_place_of([*written, *operands], given[count:]):
            return _as_tensor(test(values(given[:count])), bool, True, True)

    def turn(*given: torch.Tensor) -> tuple[torch.Tensor, ...]:
        copies = [tensor.clone() for tensor in given[count:total]]
        with _in_place_of([*written, *operands], [*copies, *given[total:]]):
            found = body(start(given[:count]))
            left = [_as_tensor(found[name], kind, None, None) for name, kind in kinds.items()]
        return (*left, *copies)

    results = list(
        torch.ops.higher_order.while_loop(
            goes_on,
            turn,
            (*map(_now, first), *(_now(tensor).clone() for tensor in written)),
            tuple(map(_now, operands)),
        )
    )
    for tensor, result in zip(written, results[count:], strict=True):
        tensor.copy_(result)
    names = values(results[:count])
    for name in copied:  # the tensor that the loop wrote into is the one from before it
        carried[name].copy_(names[name])
        names[name] = carried[name]
    return names


def refusal(error: ImpureError | RaisedError, place: str) -> UnsupportedError:
    """Return the error of a branch or loop on data that is no function of tensors."""
    hint = error.hint if isinstance(error, ImpureError) else ""
    return UnsupportedError(
        "E203",
        f"the program goes on by the value of a tensor, and this is no function of tensors: {error}",
        place=place,
        hint=hint
        or "write the module so that both ways give tensors of one shape, or export the Python module",
    )


def try_turn(body: Callable[[], Body]) -> None:
    """Run a body for what it does to the lists around it, on copies of what it writes into."""
    written: list[torch.Tensor] = []
    _Tried(written)(lambda: _tried(body, written))


# -- tensors that a body reads --------------------------------------------------------------------------

_REPLACED: list[dict[int, torch.Tensor]] = []
"""For each body that is being traced: id of a tensor around it -> the one in its place."""


def _now(tensor: torch.Tensor) -> torch.Tensor:
    """Return what stands in the place of a tensor in the bodies that are being traced."""
    for replaced in _REPLACED:
        tensor = replaced.get(id(tensor), tensor)
    return tensor


class _Watching(TorchFunctionMode):
    """Collects the tensors that a body reads and does not make; it may write into those that it makes."""

    def __init__(self, own: Sequence[torch.Tensor] = ()) -> None:
        super().__init__()
        self._seen: dict[int, torch.Tensor] = {id(t): t for t in own}
        self._fresh: set[int] = set()
        self._own = own
        self.outside: dict[int, torch.Tensor] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = [v for v in pytree.tree_leaves((args, kwargs)) if isinstance(v, torch.Tensor)]
        if writes(getattr(func, "__name__", "")) and not (given and memory_of(given[0]) in self._fresh):
            known = [*self._own, *self.outside.values()]
            raise WritesError(next((t for t in known if shares_memory(t, given[0])), given[0]))
        for tensor in given:
            if id(tensor) not in self._seen:
                self.outside.setdefault(id(tensor), tensor)
        before = {memory_of(tensor) for tensor in given}
        found = func(*args, **(kwargs or {}))
        for tensor in pytree.tree_leaves(found):
            if isinstance(tensor, torch.Tensor):
                if id(tensor) not in self.outside:
                    self._seen[id(tensor)] = tensor
                if memory_of(tensor) not in before:
                    self._fresh.add(memory_of(tensor))
        return found


class _Replacing(TorchFunctionMode):
    """Gives every call the tensors that stand in the place of others."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        args, kwargs = pytree.tree_map(
            lambda value: _now(value) if isinstance(value, torch.Tensor) else value, (args, kwargs or {})
        )
        return func(*args, **kwargs)


class _in_place_of:  # noqa: N801 - a with block
    def __init__(self, operands: Sequence[torch.Tensor], given: Sequence[torch.Tensor]) -> None:
        self._replaced = {id(a): b for a, b in zip(operands, given, strict=True)}
        self._mode = _Replacing()

    def __enter__(self) -> None:
        _REPLACED.append(self._replaced)
        self._mode.__enter__()

    def __exit__(self, *error: Any) -> None:
        self._mode.__exit__(*error)
        _REPLACED.pop()


class _Tried:
    """Tries bodies until all tensors are known that they write into.

    Args:
        written: gets them.
    """

    def __init__(self, written: list[torch.Tensor]) -> None:
        self._written = written

    def __call__(self, step: Callable[[], Any]) -> Any:
        for _ in range(_MOST_WRITTEN):
            try:
                return step()
            except WritesError as error:
                self._written.append(error.tensor)
        raise ImpureError(f"it writes into more than {_MOST_WRITTEN} tensors")


_MOST_WRITTEN = 100


def _tried(body: Callable[[], Body], written: Sequence[torch.Tensor]) -> tuple[Body, dict[int, torch.Tensor]]:
    """Return what a body leaves, and the tensors around it that it reads or leaves.

    Args:
        body: runs it.
        written: the tensors around it that it may write into, of which it gets copies.
    """
    with disable_proxy_modes_tracing(), _Watching() as watching:
        copies = [tensor.clone() for tensor in written]
        watching.outside.clear()
        with _in_place_of(written, copies):
            found = body()
            for value in pytree.tree_leaves((found.names, found.returned)):
                tensor = value.tensor if isinstance(value, DataNumber) else value
                if isinstance(tensor, torch.Tensor):
                    torch.ops.aten.alias(tensor)  # counts as read if it is from outside
    _require_apart(written, watching.outside)
    return found, watching.outside


def _require_apart(written: Sequence[torch.Tensor], outside: Mapping[int, torch.Tensor]) -> None:
    """Raise where a body reads memory that it writes into by another tensor."""
    for number, tensor in enumerate([*written, *outside.values()]):
        others = written[number + 1 :] if number < len(written) else written
        if any(shares_memory(tensor, w) or MEMORY.is_copied_of(tensor, w) for w in others):
            raise ImpureError("it writes into a tensor and reads another view of it")


def _operands(outer: Sequence[Mapping[int, torch.Tensor]]) -> list[torch.Tensor]:
    found: dict[int, torch.Tensor] = {}
    for each in outer:
        found.update(each)
    return list(found.values())


# -- values that a body leaves ---------------------------------------------------------------------------


def _names_after(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[str]:
    """Return the names that both bodies leave."""
    return [name for name in a if name in b]


def _left(outcome: Body, names: Sequence[str]) -> tuple[dict[str, Any], list[Any]]:
    return {name: outcome.names[name] for name in names}, outcome.returned


def _kind(a: Any, b: Any) -> Any:
    """Return what two values become: None for one that stays, a type of Python's, or a tensor."""
    if isinstance(a, Uninitialized) or isinstance(b, Uninitialized):
        other = b if isinstance(a, Uninitialized) else a
        return None if isinstance(other, Uninitialized) else _kind(other, other) or type(other)
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        if (a.dtype, tuple(a.shape)) != (b.dtype, tuple(b.shape)):
            raise ImpureError(f"its branches give tensors of {_said(a)} and {_said(b)}")
        return torch.Tensor
    types = {_type_of(value) for value in (a, b)}
    plain = len(types) == 1 and not isinstance(a, DataNumber) and not isinstance(b, DataNumber)
    if plain and (a is b or (isinstance(a, (bool, int, float, str)) and a == b)):
        return None
    if len(types) == 1 and types <= {bool, int, float}:
        return types.pop()
    raise ImpureError("its branches give values of different kinds")


def _carried_kind(name: str, value: Any) -> Any:
    kind = _type_of(value)
    if isinstance(value, torch.Tensor):
        return torch.Tensor
    if kind in (bool, int, float):
        return kind
    if isinstance(value, list):
        raise ImpureError(f"the list `{name}` grows in it", ADVICE)
    raise ImpureError(f"it assigns `{name}`, which is neither a tensor nor a number")


def _type_of(value: Any) -> Any:
    """Return the type of a value; Python's own for a number that a tensor or a size holds."""
    kind = value.kind if isinstance(value, DataNumber) else type(value)
    return {torch.SymBool: bool, torch.SymInt: int, torch.SymFloat: float}.get(kind, kind)


_TYPES: dict[Any, Any] = {bool: torch.bool, int: torch.int64, float: torch.float64}


def _as_tensor(value: Any, kind: Any, a: Any, b: Any) -> torch.Tensor:
    """Return a value that a body leaves, as a tensor that is no tensor from outside."""
    if isinstance(value, Uninitialized):  # which nothing reads
        other = b if isinstance(a, Uninitialized) else a
        if not isinstance(other, torch.Tensor):
            return torch.zeros((), dtype=_TYPES[kind])
        return torch.zeros(tuple(other.shape), dtype=other.dtype)
    if isinstance(value, DataNumber):
        value = value.tensor
    if isinstance(value, torch.Tensor):
        found = _now(value).clone()
        wanted = found.dtype if kind is torch.Tensor else _TYPES[kind]
        return found if found.dtype == wanted else found.to(wanted)
    if isinstance(value, torch.SymBool):
        return torch.scalar_tensor(torch.sym_ite(value, 1, 0), dtype=torch.int64) > 0
    return torch.scalar_tensor(value, dtype=_TYPES[kind])


def _given_back(tensor: torch.Tensor, kind: Any) -> Any:
    return tensor if kind is torch.Tensor else DataNumber(tensor, kind)


def _said(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"


__all__ = ["Body", "RaisedError", "branch", "loop", "refusal", "try_turn"]
