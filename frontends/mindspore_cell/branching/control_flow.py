"""Control flow: functions, choices between them and their recursion as If and Loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from ....ir import Builder, UnsupportedError, Value
from ...arguments import is_list
from .closures import Again, Choice, Closure, Held, Mixed, Selection, fill, is_callable
from .functions import Functions
from .joining import Join, UnknownShapeError, as_value
from .loops import LoopBuilder
from .nested_graphs import NestedGraphs


class Reader(Protocol):
    """The reader of functions.

    Attributes:
        functions: of the program.
    """

    functions: Functions

    def enter(self, name: str, arguments: Sequence[Any], builder: Builder, base: int) -> Frame:
        """Return the frame of a function that is about to run."""
        ...

    def place(self, base: int) -> str:
        """Return where the code of a call is, for messages."""
        ...


class Frame(Protocol):
    """A function while it runs."""

    def run(self) -> Any:
        """Run all nodes; returns the function's result."""
        ...

    def run_until_choice(self) -> Choice:
        """Run all nodes but the last call, which every result comes from; returns what that calls."""
        ...


class ControlFlow:
    """Runs the functions of a program, and makes Ifs and Loops of their choices and their recursion.

    MindIR has neither statements nor loops. A branch is a function with the values that it reads as
    arguments; a loop is a function, its header, which chooses between the body, which ends in a call of the
    header, and what comes after the loop. A `break` or a `return` in the body is a branch that does not end
    in that call.

    Args:
        reader: runs the nodes of functions.
    """

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._loops: list[tuple[str, list[int]]] = []

    # -- calls -----------------------------------------------------------------------------------

    def call(self, callee: Any, arguments: Sequence[Any], builder: Builder, base: int) -> Any:
        """Call a function, or one that is chosen, in the call `base`; returns its result.

        Raises:
            UnsupportedError: for what is neither If nor Loop.
        """
        if isinstance(callee, Closure):
            return self._run(callee.function, [*callee.arguments, *arguments], builder, base)
        if isinstance(callee, Choice):
            condition = self._condition(callee.condition.within(builder), builder, base)
            if isinstance(condition, bool):
                return self.call(callee.first if condition else callee.second, arguments, builder, base)
            return self._branch_and_meet(condition, callee, arguments, builder, base)
        if isinstance(callee, Selection):
            return self._select(callee, arguments, builder, base)
        raise self._refused(base, "a call of a function that is known", f"`{callee!r}`")

    def choose(self, choice: Choice, builder: Builder, base: int) -> Any:
        """Return the data that a Switch chooses."""
        condition = self._condition(choice.condition.within(builder), builder, base)
        if isinstance(condition, bool):
            return _data(choice.first if condition else choice.second, builder)
        return self._branch(condition, (choice.first, choice.second), (), builder, base)

    def _run(self, name: str, arguments: Sequence[Any], builder: Builder, base: int) -> Any:
        for header, varying in self._loops:
            if header == name:
                return Again(name, tuple(_data(arguments[n], builder) for n in varying))
        if self._reader.functions.is_header(name, self._headers()):
            return self._loop(name, arguments, builder, base)
        return self._reader.enter(name, arguments, builder, base).run()

    def _headers(self) -> frozenset[str]:
        return frozenset(header for header, _ in self._loops)

    # -- branches --------------------------------------------------------------------------------

    def _branch_and_meet(
        self, condition: Value, choice: Choice, arguments: Sequence[Any], builder: Builder, base: int
    ) -> Any:
        """Branch; what both branches lead to comes after the If, where not each leaves the function first."""
        chosen = (choice.first, choice.second)
        names = [c.function for c in chosen if isinstance(c, Closure)]
        meeting = None
        if len(names) == len(chosen) and not arguments:
            meeting = self._reader.functions.meeting(names[0], names[1], self._headers())
        if meeting is None:
            return self._branch(condition, chosen, arguments, builder, base)
        count = len(self._reader.functions.by_name[meeting].inputs)
        self._loops.append((meeting, list(range(count))))
        try:
            found = self._branch(condition, chosen, (), builder, base)
        except UnknownShapeError:  # of what one of the branches leaves unset
            found = None
        finally:
            self._loops.pop()
        if found is None:
            return self._branch(condition, chosen, (), builder, base)
        if not isinstance(found, (Again, Mixed)) or found.header != meeting:
            return found
        after = Closure(meeting, tuple(_held(value, builder) for value in found.state))
        if isinstance(found, Again):
            return self.call(after, (), builder, base)
        going = self._condition(found.going, builder, base)
        if isinstance(going, bool):
            return self.call(after, (), builder, base) if going else found.results
        return self._branch(going, (after, _held(found.results, builder)), (), builder, base)

    def _branch(
        self, condition: Value, chosen: tuple[Any, Any], arguments: Sequence[Any], builder: Builder, base: int
    ) -> Any:
        nested = NestedGraphs(builder)
        given = [_held(a, builder) for a in arguments]
        first, second = nested.enter("then_branch"), nested.enter("else_branch")
        results = [
            self.call(callee, given, part, base) if is_callable(callee) else _data(callee, part)
            for callee, part in zip(chosen, (first, second), strict=True)
        ]
        depths = {header: n for n, (header, _) in enumerate(self._loops)}
        join = Join((first, second), depths, self._reader.place(base))
        joined = join.join(*results)
        if not join.values:
            return joined
        for number, part in enumerate((first, second)):
            part.graph.outputs = [(f"output_{n}", pair[number]) for n, pair in enumerate(join.values)]
        captures = nested.complete()
        values = builder.ops(
            "If",
            condition,
            outputs=len(join.values),
            types=join.types(),
            captures=captures,
            then_branch=first.graph,
            else_branch=second.graph,
        )
        return fill(joined, values)

    def _select(self, selection: Selection, arguments: Sequence[Any], builder: Builder, base: int) -> Any:
        """Call one of several functions by its number; a number below 0 counts from the end."""
        number, count = selection.number.within(builder), len(selection.closures)
        if not isinstance(number, Value):
            return self.call(selection.closures[int(np.reshape(number, ()))], arguments, builder, base)
        place = self._reader.place(base)
        below = builder.op("Less", number, builder.scalar_like(0, number))
        number = builder.op(
            "Where", below, builder.op("Add", number, builder.scalar_like(count, number)), number
        )
        chosen: Any = selection.closures[-1]
        for index in reversed(range(count - 1)):
            equal = builder.op("Equal", number, builder.scalar_like(index, number))
            chosen = Choice(Held(equal, builder), selection.closures[index], chosen)
        if count == 0:
            raise UnsupportedError("E203", "expected Cells to choose from, got none", place=place)
        return self.call(chosen, arguments, builder, base)

    def _condition(self, found: Any, builder: Builder, base: int) -> Value | bool:
        """Return a condition as a 0-d bool, or what it is where it is known."""
        if not isinstance(found, Value):
            if isinstance(found, (bool, int, float)) or (isinstance(found, np.ndarray) and found.size == 1):
                return bool(found)
            raise self._refused(base, "a condition that is a tensor", f"`{found!r}`")
        type_ = builder.graph.known_type(found)
        if type_.dtype != "bool":
            equal = builder.op("Equal", found, builder.scalar_like(0, found))
            found = builder.op("Not", equal)
        if type_.shape:
            found = builder.op("Reshape", found, builder.constant([], "int64"))
        return found

    # -- loops -----------------------------------------------------------------------------------

    def _loop(self, name: str, arguments: Sequence[Any], builder: Builder, base: int) -> Any:
        around = self._headers()
        functions, place = self._reader.functions, self._reader.place(base)
        given = [_held(a, builder) for a in arguments]
        varying = functions.varying(name, around)
        initial = tuple(_data(given[n], builder) for n in varying)
        formals = functions.by_name[name].inputs
        loop = LoopBuilder(initial, [formals[n] for n in varying], builder, place)
        at = dict(zip(varying, range(len(varying)), strict=True))

        def with_state(state: Sequence[Any], of: Builder) -> list[Any]:
            return [Held(state[at[n]], of) if n in at else g for n, g in enumerate(given)]

        side = functions.continuing_side(name, around)
        if side is not None:
            found = self._loop_with_condition(name, varying, with_state, loop, side, base)
            if found is not None:
                return found
            loop = LoopBuilder(initial, [formals[n] for n in varying], builder, place)
        self._loops.append((name, varying))
        try:
            frame = self._reader.enter(name, with_state(loop.state, loop.body), loop.body, base)
            result = frame.run()
        finally:
            self._loops.pop()
        if not isinstance(result, Mixed) or result.header != name:
            raise self._refused(
                base, "a loop that ends, and calls of itself as the last thing only", "neither"
            )
        going = as_value(result.going, loop.body, place)
        return loop.finish(loop.body.constant(True, "bool"), going, result.state, result.results)

    def _loop_with_condition(
        self, name: str, varying: list[int], with_state: Any, loop: LoopBuilder, side: int, base: int
    ) -> Any:
        """Return a loop of which nothing but its condition ends it; None where its body ends it too."""
        reader, builder, body = self._reader, loop.builder, loop.body
        self._loops.append((name, varying))
        try:
            choice = reader.enter(name, with_state(loop.state, body), body, base).run_until_choice()
            again = self.call((choice.first, choice.second)[side], (), body, base)
        finally:
            self._loops.pop()
        if not isinstance(again, Again) or again.header != name:
            return None
        first = reader.enter(name, with_state(loop.initial, builder), builder, base).run_until_choice()
        runs = self._runs(first, side, builder, base)
        state = loop.conformed(again.state)
        next_ = reader.enter(name, with_state(state, body), body, base).run_until_choice()
        last = loop.finish(runs, self._runs(next_, side, body, base), state, ())
        assert last == ()
        after = reader.enter(name, with_state(loop.final, builder), builder, base).run_until_choice()
        left = (after.second, after.first)[side]
        return self.call(left, (), builder, base) if is_callable(left) else _data(left, builder)

    def _runs(self, choice: Choice, side: int, builder: Builder, base: int) -> Value:
        """Whether a loop has another turn, as a 0-d bool."""
        condition = self._condition(choice.condition.within(builder), builder, base)
        if isinstance(condition, bool):
            return builder.constant(condition != bool(side), "bool")
        return builder.op("Not", condition) if side else condition

    def _refused(self, base: int, expected: str, found: str) -> UnsupportedError:
        return UnsupportedError(
            "E203",
            f"expected {expected}, got {found}",
            place=self._reader.place(base),
            hint="write it with `if` and `while` on tensors, or make the condition a Python value",
        )


def _held(found: Any, builder: Builder) -> Any:
    is_data = isinstance(found, (Value, Again, Mixed)) or is_list(found)
    return Held(found, builder) if is_data else found


def _data(found: Any, builder: Builder) -> Any:
    """Return a held value in the graph of a builder."""
    return found.within(builder) if isinstance(found, Held) else found
