"""One Loop while it is built: what it carries from turn to turn, and what it gives in the end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ....ir import Builder, TensorType, UnsupportedError, Value
from ...arguments import is_list
from ..mindir import MONAD
from .closures import UNSET, Again, Mixed, Slot, fill
from .joining import as_value
from .nested_graphs import NestedGraphs


class LoopBuilder:
    """One Loop while it is built.

    Args:
        initial: what is carried, as it is before the first turn; nested.
        formals: (name, type) of it in MindIR.
        builder: of the graph around.
        place: for messages.

    Attributes:
        initial: what is carried, as values.
        state: the same in the body, at the start of a turn.
        final: the same after the loop; set by `finish`.
        body: builds the body.
    """

    def __init__(
        self,
        initial: Sequence[Any],
        formals: Sequence[tuple[str, TensorType | None]],
        builder: Builder,
        place: str,
    ) -> None:
        self.builder, self._place = builder, place
        self._first: list[Value] = []
        self.initial = tuple(self._start(v) for v in initial)
        self._nested = NestedGraphs(builder)
        self.body = self._nested.enter("body")
        self.body.graph.add_input("iteration", TensorType("int64", ()))
        self.body.graph.add_input("running", TensorType("bool", ()))
        self._types: list[TensorType] = []
        state = []
        for (name, stated), value in zip(formals, self.initial, strict=True):
            state.append(self._formal(_variable(name), stated, value))
        self.state: tuple[Any, ...] = tuple(state)
        self.final: tuple[Any, ...] = ()

    def _start(self, found: Any) -> Any:
        if is_list(found):
            return tuple(self._start(part) for part in found)
        if found is MONAD or found is None:
            return found
        value = as_value(found, self.builder, self._place)
        self._first.append(value)
        return value

    def _formal(self, name: str, stated: TensorType | None, initial: Any) -> Any:
        if is_list(initial):
            return tuple(self._formal(f"{name}_{n}", None, part) for n, part in enumerate(initial))
        if not isinstance(initial, Value):
            return initial
        given = self.builder.graph.known_type(initial)
        type_ = given
        if stated is not None and stated.dtype == given.dtype and stated.shape is not None:
            type_ = stated
        self._types.append(type_)
        taken = {node.name for node in self.body.graph.input_nodes()}
        number = 1
        base = name
        while name in taken:
            number += 1
            name = f"{base}_{number}"
        return self.body.graph.add_input(name, type_)

    def conformed(self, found: Sequence[Any]) -> tuple[Any, ...]:
        """Return the state after a turn as values of the types carried."""
        types = iter(self._types)
        return tuple(self._conform(a, b, types) for a, b in zip(found, self.state, strict=True))

    def _conform(self, found: Any, formal: Any, types: Iterable[TensorType]) -> Any:
        if is_list(formal):
            if not is_list(found) or len(found) != len(formal):
                raise UnsupportedError(
                    "E203",
                    "expected a loop to keep the length of its tuples and lists, got one that changes it",
                    place=self._place,
                    hint="write into a tensor of fixed size, or loop over a Python range",
                )
            return tuple(self._conform(a, b, types) for a, b in zip(found, formal, strict=True))
        if not isinstance(formal, Value):
            return formal
        type_ = next(iter(types))
        value = as_value(found, self.body, self._place, like=type_)
        new = self.body.graph.known_type(value)
        if new.dtype != type_.dtype or (
            new.shape is not None and type_.shape is not None and len(new.shape) != len(type_.shape)
        ):
            raise UnsupportedError(
                "E203",
                f"expected a loop to keep the type and rank of the values it carries, got {type_} and {new}",
                place=self._place,
                hint="cast it before the loop",
            )
        return value

    def finish(self, runs: Value, going: Value, state: Sequence[Any], results: Any) -> Any:
        """Add the Loop.

        Args:
            runs: of the graph around, or a constant of the body: whether there is a first turn.
            going: of the body, whether there is another.
            state: what is carried, after a turn.
            results: what the loop gives besides, in the body; zeros of its type before the last turn.

        Returns:
            The results after the loop.
        """
        body, builder = self.body, self.builder
        new = list(_flat(self.conformed(state)))
        extra: list[Value] = []
        template = self._slots(results, extra)
        starts = []
        for number, value in enumerate(extra):
            type_ = body.graph.known_type(value)
            body.graph.add_input(f"result_{number}", type_)
            self._types.append(type_)
            starts.append(as_value(UNSET, builder, self._place, like=type_))
        if results != ():
            runs = builder.constant(True, "bool")
        body.graph.outputs = [(f"output_{n}", v) for n, v in enumerate([going, *new, *extra])]
        captures = self._nested.complete()
        values = builder.ops(
            "Loop",
            None,
            runs,
            *self._first,
            *starts,
            outputs=len(self._types),
            types=self._types,
            captures=captures,
            body=body.graph,
        )
        after = iter(values)
        self.final = tuple(_refill(v, after) for v in self.initial)
        return fill(template, list(after))

    def _slots(self, found: Any, extra: list[Value]) -> Any:
        """Return the results of the loop, with a slot for each value."""
        if is_list(found):
            return tuple(self._slots(part, extra) for part in found)
        if isinstance(found, Again):
            return Again(found.header, self._slots(found.state, extra))
        if isinstance(found, Mixed):
            going = self._slots(found.going, extra)
            return Mixed(
                found.header, going, self._slots(found.state, extra), self._slots(found.results, extra)
            )
        if isinstance(found, Value):
            extra.append(found)
            return Slot(len(extra) - 1)
        return found


def _refill(template: Any, values: Any) -> Any:
    if is_list(template):
        return tuple(_refill(part, values) for part in template)
    return next(values) if isinstance(template, Value) else template


def _flat(found: Any) -> Iterable[Value]:
    if is_list(found):
        for part in found:
            yield from _flat(part)
    elif isinstance(found, Value):
        yield found


def _variable(name: str) -> str:
    """Return the user's name of a variable that a loop carries, as MindIR has it."""
    plain = name.rpartition(":")[2].lstrip("ф")
    return plain if plain.isidentifier() and not plain.startswith("Parameter_") else "carried"
