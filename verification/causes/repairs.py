"""Finds the one call which, written otherwise, makes all outputs of a target right on every draw."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from .calls import given_to
from .changes import Change, Hints, changes_of
from .tape import Record, Ref, Tape, behind, mapped
from .values import SAME, is_plain, relation

Values = dict[Ref, np.ndarray]


class Draw(NamedTuple):
    """The calls of both sides on one draw of inputs."""

    source: Tape
    target: Tape

    def wrong_outputs(self, tolerance: float, values: Mapping[Ref, np.ndarray] | None = None) -> list[int]:
        """The outputs that differ.

        Args:
            tolerance: how close equal values are, as a share of the largest.
            values: of the target, which stand in place of the recorded ones.
        """
        wrong: list[int] = []
        for at, (mine, theirs) in enumerate(zip(self.source.outputs, self.target.outputs, strict=False)):
            if mine is None or theirs is None:
                continue
            a = self.source.value(mine)
            b = values[theirs] if values and theirs in values else self.target.value(theirs)
            if a.shape != b.shape or relation(a, b, tolerance) != SAME:
                wrong.append(at)
        return wrong

    def is_like(self, other: Draw) -> bool:
        """Whether another draw makes the same calls, so that a change of one is a change of the other."""
        return all(
            len(a.records) == len(b.records)
            and a.outputs == b.outputs
            and all(
                x.site == y.site and x.refs() == y.refs() and len(x.arrays) == len(y.arrays)
                for x, y in zip(a.records, b.records, strict=True)
            )
            for a, b in zip(self, other, strict=True)
        )


Edit = Callable[[Draw, Values], list[np.ndarray] | None]
"""What a call of the target's gives once it is written otherwise, on a draw."""


def written(at: int, change: Change) -> dict[int, Edit]:
    """A change of one call as the edits that it makes."""

    def edit(at: int, args: tuple[Any, ...], kwargs: dict[str, Any], function: Any) -> Edit:
        def made(draw: Draw, values: Values) -> list[np.ndarray] | None:
            record = draw.target.records[at]
            return draw.target.run(replace(record, args=args, kwargs=kwargs, function=function), values)

        return made

    edits = {at: edit(at, change.args, change.kwargs, change.function)}
    for other, args, kwargs, function in change.elsewhere:
        edits[other] = edit(other, args, kwargs, function)
    return edits


def replayed(
    draw: Draw, edits: Mapping[int, Edit], later: Sequence[int], *, partly: bool = False
) -> Values | None:
    """The values of the target once some calls are written otherwise; None where one cannot be made.

    Args:
        draw: the recorded calls.
        edits: the calls that are written otherwise.
        later: the calls that take what they give.
        partly: whether to return the values up to the first call that cannot be made.
    """
    values: Values = {}
    for at in sorted({*edits, *later}):
        record = draw.target.records[at]
        arrays = edits[at](draw, values) if at in edits else draw.target.run(record, values)
        if arrays is None or len(arrays) != len(record.arrays):
            return values if partly and values else None
        if len(edits) == 1 and at in edits and all(map(_is_equal, arrays, record.arrays)):
            return None  # it computes the same
        values |= {Ref(at, leaf): array for leaf, array in enumerate(arrays)}
    return values


def _is_equal(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and np.array_equal(a, b)


@dataclass(slots=True)
class Repair:
    """What makes all outputs right.

    Attributes:
        at: the target's call.
        kind: as of a `Found`.
        cost: the smaller, the likelier that a person wrote it so.
        edits: what is written otherwise.
        change: the same in words; None where a call is missing or too many.
        other: the source's call that stands for it.
    """

    at: int
    kind: str
    cost: float
    edits: Mapping[int, Edit]
    change: Change | None = None
    other: Record | None = None


_COST = {0: 0.0, 1: 1.0, 2: 4.0, 3: 5.0, 4: 6.0, 5: 4.5}
"""Rank of a change -> its cost."""

_STRUCTURE = 2.0
"""Cost of values exchanged, and of a call that is missing or too many."""

_MOST_PAIRS = 64
_MOST_CALLS = 24


@dataclass(slots=True)
class Repairing:
    """A search for the change that makes all outputs right.

    Args:
        draws: the first draw, and a second one to confirm a change on where it has the same calls.
        tolerance: how close equal values are.
        mine: the source's calls whose values the target does not have.
        theirs: the target's calls whose values the source does not have.
        matches: the values of the source's that equal one of the target's, and of the target's.
        hints: what the source's calls were given.
        counterpart: finds the source's call that stands for one of the target's, among some.
        end: when to stop.
    """

    draws: list[Draw]
    tolerance: float
    mine: list[int]
    theirs: list[int]
    matches: Callable[[int, Ref], list[tuple[Ref, str]]]
    hints: Hints
    counterpart: Callable[[Record, list[int]], Record | None]
    end: float

    def find(self) -> Repair | None:
        """Return the likeliest change; None where no single one makes all outputs right."""
        tried = [repair for at in self.theirs[:_MOST_CALLS] for repair in self._of_call(at)]
        tried += self._swaps()
        for repair in sorted(tried, key=lambda repair: repair.cost):
            if time.process_time() > self.end:
                break
            if self._is_right(repair):
                return repair
        return None

    @property
    def source(self) -> Tape:
        """The source's calls on the first draw."""
        return self.draws[0].source

    @property
    def target(self) -> Tape:
        """The target's calls on the first draw."""
        return self.draws[0].target

    def _is_right(self, repair: Repair) -> bool:
        """Whether a change makes all outputs right on every draw."""
        later = behind(self.target, list(repair.edits))
        for draw in self.draws:
            values = replayed(draw, repair.edits, later)
            if values is None or draw.wrong_outputs(self.tolerance, values):
                return False
        return True

    def _of_call(self, at: int) -> Iterator[Repair]:
        """The ways to write one call otherwise."""
        record = self.target.records[at]
        other = self.counterpart(record, self.mine)
        like = None if other is None else given_to(other, self.source.host)
        kind = "operator" if record.kind == "operator" else "argument"
        for change in changes_of(self.target, record, self.hints, like):
            yield Repair(at, kind, _COST.get(change.rank, 7.0), written(at, change), change, other)
        for ref in record.refs():
            if len(record.arrays) == 1 and record.arrays[0].shape == self.target.value(ref).shape:
                yield Repair(at, "extra", _STRUCTURE, {at: _passing(ref)})
            yield from self._missing(at, ref)

    def _missing(self, at: int, ref: Ref) -> Iterator[Repair]:
        """A call of the source's on what enters one of the target's."""
        entering = {match for match, _ in self.matches(1, ref)}
        for each in self.mine:
            known = self.source.records[each]
            if len(known.arrays) != 1 or not any(r in entering for r in known.refs()):
                continue
            if known.arrays[0].shape == self.target.value(ref).shape and not is_plain(known.arrays[0]):
                edit = _given(at, ref, each)
                yield Repair(at, "missing", _STRUCTURE, {at: edit}, None, known)

    def _swaps(self) -> Iterator[Repair]:
        """Two values exchanged wherever one line takes them."""
        lines: dict[tuple[str, int, int], list[int]] = {}
        for at in self.theirs:
            record = self.target.records[at]
            if record.site.line:
                lines.setdefault((record.site.file, record.site.line, id(record.module)), []).append(at)
        for found in lines.values():
            known = {(r.site.file, r.site.line) for r in (self.target.records[at] for at in found)}
            line = [
                at
                for at in range(min(found), len(self.target.records))
                if (self.target.records[at].site.file, self.target.records[at].site.line) in known
            ]
            taken = dict.fromkeys(ref for at in line for ref in self.target.records[at].refs())
            for a, b in list(combinations(taken, 2))[:_MOST_PAIRS]:
                repair = self._swapped(line, a, b)
                if repair is not None:
                    yield repair

    def _swapped(self, line: list[int], a: Ref, b: Ref) -> Repair | None:
        """Two values exchanged in the calls of a line; None where that means nothing."""
        target = self.target
        changed = [at for at in line if {a, b} & set(target.records[at].refs())]
        if len(changed) < 2 or any(ref.record in {*changed, *behind(target, changed)} for ref in (a, b)):
            return None
        texts = [_written_for(target, ref, changed) for ref in (a, b)]
        if "" in texts or texts[0] == texts[1]:
            return None
        turn = {a: b, b: a}

        def exchanged(leaf: Any) -> Any:
            return turn.get(leaf, leaf) if isinstance(leaf, Ref) else leaf

        calls: list[tuple[int, tuple[Any, ...], dict[str, Any], Any]] = []
        for at in changed:
            record = target.records[at]
            given = record.args, record.kwargs
            args, kwargs = mapped(given, exchanged)
            calls.append((at, args, kwargs, record.function))
        at, args, kwargs, function = calls[0]
        names = f"`{texts[0]}`, `{texts[1]}`"
        change = Change(
            args,
            kwargs,
            function,
            names,
            "exchanged",
            "as they are",
            f"`{texts[0]}` and `{texts[1]}` exchanged",
            elsewhere=tuple(calls[1:]),
        )
        return Repair(at, "operator", _STRUCTURE, written(at, change), change)


def _passing(ref: Ref) -> Edit:
    """What a call gives that gives what enters it."""
    return lambda draw, values: [values[ref] if ref in values else draw.target.value(ref)]


def _given(at: int, ref: Ref, other: int) -> Edit:
    """What a call gives that takes what a call of the source's gave in place of a value."""

    def made(draw: Draw, values: Values) -> list[np.ndarray] | None:
        return draw.target.run(draw.target.records[at], {**values, ref: draw.source.records[other].arrays[0]})

    return made


def _written_for(tape: Tape, ref: Ref, calls: Sequence[int]) -> str:
    """How some calls write a value that they take; empty where none writes it."""
    for at in calls:
        record = tape.records[at]
        for place, item in enumerate(record.args):
            if item == ref and place < len(record.site.operands):
                return record.site.operands[place]
    return ""
