"""Makes loops of numbered layers that are constructed and called alike, such as those of DenseNet."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from ....ir import Value
from ..definitions import Definition, Loop, Method, Statement
from ..expressions import (
    ANY,
    KEPT,
    Access,
    Argument,
    Call,
    Expression,
    Literal,
    NumberedAccess,
    NumberedLayers,
    Part,
    Tuple,
    Use,
    only_call,
)
from ..names import split_number
from ..progressions import REPEATED, common_form, longest_progression
from ..rendering import Renderer
from ..tables import count_alike, find_table, is_shorter
from ..traversal import accesses, literals, rebuild, shape_of, uses
from .structure import tag_types

COUNT = "num_layers"
"""The constructor argument of a class whose instances have different numbers of layers."""


_TABLED = 6
"""Numbered layers from which a table of settings reads better: names of a few, as of stages, tell more."""


@dataclass(frozen=True, slots=True)
class _Run:
    """Attributes in a row, named ``layer1``, ``layer2``, and so on."""

    prefix: str
    start: int
    parts: tuple[Part, ...]

    @property
    def names(self) -> list[str]:
        """Their names."""
        return [f"{self.prefix}{self.start + at}" for at in range(len(self.parts))]

    @property
    def access(self) -> NumberedAccess:
        """The way to the layer of a turn of a loop."""
        return NumberedAccess(self.prefix, self.start)

    def form(self) -> Part | None:
        """Return how a turn of a loop constructs its layer; None where they are not alike."""
        return common_form(self.parts, Renderer().text, lambda _: True)

    def numbered(self, members: tuple[Part, ...] = ()) -> NumberedLayers:
        """Return what constructs them in a loop: one form for all, or each of them for a table."""
        return NumberedLayers(self.prefix, self.start, Literal(len(self.parts), COUNT), members or self.parts)

    def is_tabled(self, turns: _Turns) -> bool:
        """Whether a table of settings, and a loop that calls them, read better than one after the other."""
        renderer = Renderer()
        if len(self.parts) < _TABLED or count_alike(self.parts) < len(self.parts):
            return False
        if find_table(self.parts, renderer.text, renderer.taken) is None:
            return False
        table = sum(map(len, renderer.numbered_layers(self.numbered())))
        others = sum(
            len(f"self.{n} = {renderer.text(p)}") for n, p in zip(self.names, self.parts, strict=True)
        )
        loop = turns.step.branches
        if isinstance(loop, Loop) and not loop.grows:  # the calls are a loop only with the table
            line = len(f"x = self.{self.names[0]}(x)")
            others += line * (turns.stop - turns.start)
            table += line * (2 + (turns.stop - turns.start) // len(self.parts))
        return is_shorter(table, others)

    def section(self, start: int, stop: int) -> _Run:
        """Return some of them."""
        return _Run(self.prefix, self.start + start, self.parts[start:stop])


def loop_over_numbered_layers(
    definitions: Sequence[Definition], children: Callable[[int], Collection[object]]
) -> None:
    """Write numbered layers as loops, in the constructor and in the method, where both become regular.

    Three or more layers that each add a member to the tuple of all that they are given are called in a loop
    however they are constructed. Two layers are enough where others of the source class have more, so that
    all may share a class.

    Args:
        definitions: of one level.
        children: returns the attributes of a module that are modules.
    """
    classes: dict[str, list[Definition]] = {}
    for definition in definitions:
        if definition.has_body and not definition.methods:
            classes.setdefault(definition.source_class, []).append(definition)
    for members in classes.values():
        runs = {d.module: _runs(d, children(d.module)) for d in members}
        long = {run.prefix for found in runs.values() for run in found if len(run.parts) >= REPEATED}
        for definition in members:
            for run in runs[definition.module]:
                if run.prefix in long:
                    _loop_over(definition, run)


def _runs(definition: Definition, children: Collection[object]) -> list[_Run]:
    """Return the runs of two layers or more whose names have consecutive numbers."""
    found: list[_Run] = []
    for name, part in definition.attributes:
        numbered = split_number(name) if name in children else None
        last = found[-1] if found else None
        if numbered is None:
            found.append(_Run("", 0, ()))  # ends the run before
        elif last and (last.prefix, last.start + len(last.parts)) == numbered:
            found[-1] = replace(last, parts=(*last.parts, part))
        else:
            found.append(_Run(*numbered, (part,)))
    return [run for run in found if len(run.parts) > 1]


def _loop_over(definition: Definition, run: _Run) -> None:
    """Write a run as a loop, or those parts of it that are alike."""
    is_long = len(run.parts) >= REPEATED or run.form() is not None
    if is_long and _join_turns(definition, run, _find_growth(definition, run)):
        return
    at, known = 0, 0  # layers from `at` to `known` have no table together
    while at < len(run.parts):
        rest = run.section(at, len(run.parts))
        count = longest_progression(rest.parts, Renderer().text, lambda _: True)
        alike = count_alike(rest.parts) if at >= known else 0
        if alike > max(count, _TABLED - 1):
            known = at + alike
            section = rest.section(0, alike)
            turns = _find_chain(definition, section)
            if turns is not None and section.is_tabled(turns) and _join_turns(definition, section, turns):
                at = known
                continue
        if count:
            section = rest.section(0, count)
            _join_turns(definition, section, _find_chain(definition, section))
        at += count or 1


@dataclass(frozen=True, slots=True)
class _Turns:
    """Steps of a method that a loop replaces.

    Attributes:
        start: the number of the first.
        stop: the number of the step after them.
        step: the loop.
        whole: the values that are one tuple after it; empty for none.
    """

    start: int
    stop: int
    step: Statement
    whole: tuple[Value, ...] = ()


def _join_turns(definition: Definition, run: _Run, turns: _Turns | None) -> bool:
    """Put a loop in place of steps, if no other reads what a turn makes on the way; returns whether."""
    if turns is None:
        return False
    steps = definition.statements
    rest, is_read = _read_whole(steps[turns.stop :], turns)
    made = {value for step in steps[turns.start : turns.stop] for value in step.targets}
    read = {use.value for step in rest for use in uses(step.expression)} | {*definition.outputs}
    kept = set(turns.step.targets) if is_read or not turns.whole else set[Value]()
    if read & made - kept or (turns.whole and not is_read):
        return False
    definition.statements = [*steps[: turns.start], turns.step, *rest]
    assert isinstance(turns.step.branches, Loop)
    definition.methods.append(turns.step.branches.body)
    form = run.form()
    if form is not None or run.is_tabled(turns):
        names = run.names
        numbered = run.numbered() if form is None else run.numbered((form,))
        definition.attributes = [
            (name, numbered if name == names[0] else part)
            for name, part in definition.attributes
            if name not in names[1:]
        ]
    return True


def _read_whole(steps: Sequence[Statement], turns: _Turns) -> tuple[list[Statement], bool]:
    """Return steps with the tuple that a loop made in place of all its members, and whether one reads it."""
    whole, found = turns.whole, False

    def is_whole(parts: Sequence[Part]) -> bool:
        nonlocal found
        values = tuple(part.value for part in parts if isinstance(part, Use))
        is_one = bool(whole) and values == whole and len(parts) == len(whole)
        found |= is_one
        return is_one

    def visit(part: Part) -> Part:
        if isinstance(part, Tuple) and is_whole(part.items):
            return Use(turns.step.targets[0])
        if isinstance(part, Call) and is_whole([a.value for a in part.arguments if not a.name]):
            return replace(part, arguments=(_starred(turns.step.targets[0]), *part.arguments[len(whole) :]))
        return rebuild(part, visit)

    out: list[Statement] = []
    for step in steps:
        expression = visit(step.expression)
        assert isinstance(expression, Expression)
        out.append(replace(step, expression=expression))
    return out, found


def _starred(value: Value) -> Argument:
    return Argument("", Expression(("*", Use(value))))


def _find_calls(definition: Definition, run: _Run) -> list[int] | None:
    """Return the numbers of the steps that reach the layers; None where one is not reached exactly once."""
    reached: dict[str, list[int]] = {name: [] for name in run.names}
    for at, step in enumerate(definition.statements):
        for access in accesses(step.expression):
            if access.steps[0] in reached:
                reached[str(access.steps[0])].append(at)
    once = all(len(found) == 1 for found in reached.values())
    return [found[0] for found in reached.values()] if once else None


def _find_growth(definition: Definition, run: _Run) -> _Turns | None:
    """Return the steps in which each layer is given all that the ones before it were given and made."""
    at = _find_calls(definition, run)
    if at is None or any(b != a + 1 for a, b in pairwise(at)):
        return None
    values: list[Value] = []
    steps = definition.statements[at[0] : at[-1] + 1]
    for step in steps:
        call = only_call(step.expression)
        if call is None or not isinstance(call.callee, Access) or len(call.callee.steps) > 1:
            return None
        inputs = [a.value.value for a in call.arguments if not a.name and isinstance(a.value, Use)]
        plain = 0 < len(inputs) == len(call.arguments) and len(step.targets) == 1 and not step.results
        if not plain or (values and inputs != values):
            return None
        values = [*inputs, *step.targets]
    before, first, last = values[: -len(steps)], values[-len(steps)], values[-1]
    turn = Expression((Call(run.access, (_starred(first),)),))
    body = Method("", [first], [""], [last], [Statement([last], turn, (run.prefix,))])
    count, initial = Literal(len(steps), COUNT), Tuple(tuple(Use(v) for v in before))
    loop = Loop(count, body, (initial,), grows=True)
    step = Statement([last], Expression((count, initial)), hints=("features",), branches=loop)
    return _Turns(at[0], at[-1] + 1, step, tuple(values))


def _find_chain(definition: Definition, run: _Run) -> _Turns | None:
    """Return the steps that repeat for each layer what the one before made, alike in all turns."""
    at = _find_calls(definition, run)
    sizes = {b - a for a, b in pairwise(at)} if at else set[int]()
    if at is None or len(sizes) != 1 or min(sizes) < 1:
        return None
    (size,), steps = sizes, definition.statements
    for before in range(min(size, at[0] + 1)):
        start, stop = at[0] - before, at[-1] - before + size
        turns = [steps[first : first + size] for first in range(start, stop, size)]
        numbered = [
            [_numbered(step, name, run) for step in turn] for turn, name in zip(turns, run.names, strict=True)
        ]
        step = _carry(numbered) if stop <= len(steps) else None
        if step is not None:
            return _Turns(start, stop, step)
    return None


def _numbered(step: Statement, name: str, run: _Run) -> Statement:
    """Return a step with its layer reached as one of a loop."""

    def visit(part: Part) -> Part:
        return run.access if part == Access((name,)) else rebuild(part, visit)

    expression = visit(step.expression)
    assert isinstance(expression, Expression)
    attribute = (run.prefix,) if step.attribute == (name,) else step.attribute
    return replace(step, expression=expression, attribute=attribute)


def _carry(turns: Sequence[Sequence[Statement]]) -> Statement | None:
    """Return the loop of turns; None where they differ in more than in what they carry on."""
    described = [_describe(turn) for turn in turns]
    if None in described or len({repr(found[0]) for found in described if found}) > 1:
        return None
    rows = [found[1] for found in described if found]
    made = [[value for step in turn for value in step.targets] for turn in turns]
    carried: dict[int, Value] = {}  # number of a result that is carried on -> what the first turn reads
    given: dict[Value, None] = {}
    for column in zip(*rows, strict=True):
        if len(set(column)) == 1:
            given[column[0]] = None
            continue
        places = {values.index(v) if v in values else -1 for v, values in zip(column[1:], made, strict=False)}
        place = places.pop()
        if places or place < 0 or carried.setdefault(place, column[0]) != column[0]:
            return None
    inputs, outputs = [made[0][at] for at in carried], [made[1][at] for at in carried]
    body = Method("", [*inputs, *given], [""] * (len(inputs) + len(given)), outputs, list(turns[1]))
    count = Literal(len(turns), COUNT)
    initial, always = tuple(Use(v, ANY) for v in carried.values()), tuple(Use(v, KEPT) for v in given)
    loop = Loop(count, body, initial, always)
    expression = Expression((count, *initial, *always), outputs=len(carried))
    return Statement([made[-1][at] for at in carried], expression, branches=loop) if carried else None


def _describe(turn: Sequence[Statement]) -> tuple[object, list[Value]] | None:
    """Return what all turns must share, and the values from outside in the order of their uses."""
    number: dict[Value, int] = {}
    outside: list[Value] = []
    shapes: list[object] = []
    for step in turn:
        if step.branches is not None or step.is_aside:
            return None
        for use in uses(step.expression):
            if number.setdefault(use.value, -1) == -1:
                outside.append(use.value)
        found = [literal for literal, _ in literals(step.expression)]
        values = tag_types(literal.value for literal in found)
        shapes.append((shape_of(step.expression, number), values, step.attribute, step.results, step.hints))
        for value in step.targets:
            number[value] = len(number)
    return tuple(shapes), outside
