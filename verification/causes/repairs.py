"""Finds the one call which, written otherwise, makes all outputs of a target right on every draw."""

from __future__ import annotations

import ast
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from .changes import Change, Hints, changes_of
from .composing import Composing
from .likeness import likenesses
from .replaying import Draw, Edit, Values, replayed, written
from .tape import Record, Ref, Tape, behind, mapped
from .values import SAME, is_plain


@dataclass(slots=True)
class Repair:
    """A repair that makes all outputs right.

    Attributes:
        at: the target's call.
        kind: as of a `Found`.
        cost: the smaller, the likelier that a person wrote it so.
        edits: what is written otherwise.
        change: the same in words; None where a call is missing or too many.
        other: the source's call that stands for it.
        record: what stands for the target's call where it is none of the recorded ones.
        text: of a call that is missing: how it is written; empty where nobody knows.
        size: how many calls of the source's are written.
        is_short: whether it stands in place of one line; one of several may hide several causes.
        passed: of a call that is too many: the value that stays; of a missing one: the value it replaces.
        again: the same at the other calls that the expression makes.
    """

    at: int
    kind: str
    cost: float
    edits: Mapping[int, Edit]
    change: Change | None = None
    other: Record | None = None
    record: Record | None = None
    text: str = ""
    passed: Ref | None = None
    again: Sequence[Repair] = ()
    size: int = 1
    is_short: bool = True


_COST = {0: 0.0, 1: 1.0, 2: 2.5, 3: 5.0, 4: 6.0, 5: 4.5}
"""Rank of a change -> its cost."""

_EXTRA, _STRUCTURE, _TRANSPLANT = 1.4, 2.0, 3.0
"""Costs of a call too many, of values exchanged or a missing call, and of an expression of the source's."""

_CALL, _ALIKE, _LAYER = 1.5, 2.9, 5.2
"""Cost of the source's call written out; for one of the same name, and for a layer of it."""


def cost_of(change: Change) -> float:
    """The smaller, the likelier that a person wrote it so."""
    return _COST.get(change.rank, 7.0)


def cost_of_call(record: Record, other: Record | None) -> float:
    """The cost of the source's call written out in the place of one of the target's."""
    if len(record.arrays) > 1:  # one result alone may be right by chance
        return 0.5
    if other is None or plain(other.name) != plain(record.name):
        return _CALL
    return _LAYER if record.kind == "layer" else _ALIKE


def plain(name: str) -> str:
    """The name of a function without what the frameworks write differently."""
    return name.lower().replace("_", "").removesuffix("ext")


_MOST_TRANSPLANTS = 4
"""Places among which that with the shortest expression of the source's is taken."""

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
        substitutes: calls of the source's in the place of one of the target's; see `Substitutes`.
        leads: whether an edited call leads to a value of the source's before another call of the target's.
        end: when to stop.
    """

    draws: list[Draw]
    tolerance: float
    mine: list[int]
    theirs: list[int]
    matches: Callable[[int, Ref], list[tuple[Ref, str]]]
    hints: Hints
    counterpart: Callable[[Record, list[int]], Record | None]
    substitutes: Callable[..., Iterator[Change]]
    leads: Callable[[int, Edit, int], bool]
    end: float
    _untranslated: Repair | None = None

    def find(self) -> Repair | None:
        """Return the likeliest change; None where no single one makes all outputs right."""
        repeated = self._at_every_call(time.process_time() + (self.end - time.process_time()) / 3)
        if repeated is not None:
            return repeated
        tried = [repair for at in self.theirs[:_MOST_CALLS] for repair in self._of_call(at)]
        tried += self._swaps()
        tried.sort(key=lambda repair: repair.cost)
        likely = sum(repair.cost < _TRANSPLANT for repair in tried)
        now = time.process_time()
        return (
            self._first(tried[:likely], now + (self.end - now) / 2)
            or self._transplant()
            or self._first(tried[likely:], self.end)
            or self._untranslated
        )

    def _first(self, repairs: Sequence[Repair], end: float) -> Repair | None:
        """The first of some changes that makes all outputs right, up to a time."""
        for repair in repairs:
            if time.process_time() > end:
                return None
            if self._is_right(repair):
                return self._with_text(repair)
        return None

    def _with_text(self, repair: Repair) -> Repair:
        """A change with the text of a call that is missing."""
        if repair.kind == "missing" and repair.other is not None:
            place = next(at for at in self.mine if self.source.records[at] is repair.other)
            repair.text = Composing(self.draws[0], repair.at, self.matches).expression(Ref(place, 0))
            for each in repair.again:
                each.text = repair.text
        return repair

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

    def _at_every_call(self, end: float) -> Repair | None:
        """Return the likeliest change of an expression that is right at all calls that it makes.

        An edit of its line is one at all of them: in a net of equal blocks none is right alone.

        Args:
            end: when to stop.
        """
        every = _by_site(self.target, range(len(self.target.records)))
        lines = {calls[0]: calls for calls in every if len(calls) > 1 and calls[0] in self.theirs}
        tried = [
            (repair, calls)
            for at, calls in list(lines.items())[:_MOST_CALLS]
            for other in [self.counterpart(self.target.records[at], self.mine)]
            for repair in (*self._changed(at, other), *self._without_or_with(at))
            if repair.cost < _TRANSPLANT
        ]
        for repair, calls in sorted(tried, key=lambda each: each[0].cost):
            if time.process_time() > end:
                return None
            if not self.leads(repair.at, repair.edits[repair.at], calls[1]):
                continue
            whole = self._repeated(repair, calls)
            if whole is not None and self._is_right(whole):
                return self._with_text(whole)
        return None

    def _repeated(self, repair: Repair, calls: Sequence[int]) -> Repair | None:
        """Return a change of the first of some calls with the same change of the others; None without one."""
        first = self.target.records[calls[0]]
        others = self._calls_like(repair.other, len(calls))
        again: list[Repair] = []
        for at, other in zip(calls[1:], others[1:], strict=True):
            refs = self.target.records[at].refs()
            if repair.change is not None:
                same = (repair.change.name, repair.change.write)
                found = self._changed(at, None if other is None else self.source.records[other])
                twin = next((r for r in found if r.change and (r.change.name, r.change.write) == same), None)
            elif len(refs) != len(first.refs()) or (repair.kind == "missing" and other is None):
                twin = None
            else:
                ref = refs[first.refs().index(repair.passed)] if repair.passed in first.refs() else refs[0]
                edit = _passing(ref) if other is None else _given(at, ref, other)
                twin = replace(repair, at=at, edits={at: edit}, passed=ref)
            if twin is None:
                return None
            again.append(twin)
        edits = {at: edit for each in (repair, *again) for at, edit in each.edits.items()}
        return replace(repair, edits=edits, again=again)

    def _calls_like(self, other: Record | None, count: int) -> list[int | None]:
        """The source's calls of the expression that makes one of them, if they are so many."""
        for calls in _by_site(self.source, range(len(self.source.records))) if other is not None else ():
            if len(calls) == count and any(self.source.records[at] is other for at in calls):
                return list(calls)
        return [None] * count

    def _changed(self, at: int, other: Record | None) -> Iterator[Repair]:
        """The ways to give one call other arguments, or to call another function."""
        record = self.target.records[at]
        like = likenesses(self.target, record, other, self.source.host)
        kind = "operator" if record.kind == "operator" else "argument"
        for change in changes_of(self.target, record, self.hints, like):
            yield Repair(at, kind, cost_of(change), written(self.target, at, change), change, other)

    def _of_call(self, at: int) -> Iterator[Repair]:
        """The ways to write one call otherwise."""
        record = self.target.records[at]
        other = self.counterpart(record, self.mine)
        kind = "operator" if record.kind == "operator" else "argument"
        yield from self._changed(at, other)
        for deep in (False, True):
            cost = cost_of_call(record, other) + deep
            for change in self.substitutes(record, deep=deep):
                yield Repair(at, kind, cost, written(self.target, at, change), change, other)
        yield from self._without_or_with(at)

    def _without_or_with(self, at: int) -> Iterator[Repair]:
        """No call in the place of one of the target's, or one of the source's before it."""
        record = self.target.records[at]
        for ref in record.refs():
            if len(record.arrays) == 1 and record.arrays[0].size == self.target.value(ref).size:
                yield Repair(at, "extra", _EXTRA, {at: _passing(ref)}, passed=ref)
            yield from self._missing(at, ref)

    def _missing(self, at: int, ref: Ref) -> Iterator[Repair]:
        """A call of the source's on what enters one of the target's."""
        entering = {match for match, how in self.matches(1, ref) if how == SAME}
        for each in self.mine:
            known = self.source.records[each]
            if len(known.arrays) != 1 or not any(r in entering for r in known.refs()):
                continue
            if known.arrays[0].shape == self.target.value(ref).shape and not is_plain(known.arrays[0]):
                edit = _given(at, ref, each)
                yield Repair(at, "missing", _STRUCTURE, {at: edit}, None, known, passed=ref)

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
        return Repair(at, "operator", _STRUCTURE, written(self.target, at, change), change)

    def _transplant(self) -> Repair | None:
        """An expression of the source's in place of one of the target's: the shortest that is right."""
        found: list[Repair] = []
        for at in self.theirs[:_MOST_CALLS]:
            record = self.target.records[at]
            if len(record.arrays) != 1 or time.process_time() > self.end or len(found) == _MOST_TRANSPLANTS:
                continue
            for each in self.mine:
                other = self.source.records[each]
                if len(other.arrays) != 1 or other.arrays[0].shape != record.arrays[0].shape:
                    continue
                repair = Repair(at, "argument", _TRANSPLANT, {at: values_of(each)}, None, other)
                if not self._is_right(repair):
                    continue
                composing = Composing(self.draws[0], at, self.matches)
                text = composing.expression(Ref(each, 0))
                if text and text != record.site.source:
                    repair.change, repair.size = _in_place_of(text, record, other), composing.count
                    before = [self.target.records[t].site for t in self.theirs if t <= at]
                    repair.is_short = len({(site.file, site.line) for site in before}) == 1
                    found.append(repair)
                else:
                    repair.kind, repair.is_short = "other function", False
                    self._untranslated = self._untranslated or repair
                break
        found += self._at_sites()
        at_end = self._at_end()
        found += [] if at_end is None else [at_end]
        return min(found, key=lambda repair: repair.size) if found else None

    def _at_sites(self) -> Iterator[Repair]:
        """An expression of the source's in place of one that the target computes several times."""
        mine = _by_site(self.source, self.mine)
        for calls in _by_site(self.target, self.theirs):
            for others in mine if len(calls) > 1 and time.process_time() < self.end else ():
                if _shapes(self.source, others) != _shapes(self.target, calls):
                    continue
                edits = {at: values_of(each) for at, each in zip(calls, others, strict=True)}
                record, other = self.target.records[calls[0]], self.source.records[others[0]]
                repair = Repair(calls[0], "argument", _TRANSPLANT, edits, None, other, is_short=False)
                composing = Composing(self.draws[0], calls[0], self.matches)
                text = composing.expression(Ref(others[0], 0)) if self._is_right(repair) else ""
                if text and text != record.site.source:
                    repair.change, repair.size = _in_place_of(text, record, other), composing.count
                    yield repair

    def _at_end(self) -> Repair | None:
        """An expression of the source's in place of what the target returns."""
        wrong = self.draws[0].wrong_outputs(self.tolerance)
        ref, mine = self.target.outputs[wrong[0]], self.source.outputs[wrong[0]]
        end = self.target.end
        if len(wrong) != 1 or ref is None or mine is None or end is None:
            return None
        composing = Composing(self.draws[0], len(self.target.records), self.matches)
        text, last = composing.expression(mine), self.target.records[ref.record]
        if text and len(self.target.outputs) > 1:
            text = _with_element(end.source, wrong[0], text, len(self.target.outputs))
        if not text or text == end.source:
            return None
        returned = replace(last, site=end, kind="operator", name="return")
        other = self.source.records[mine.record]
        change = _in_place_of(text, returned, other)
        repair = Repair(ref.record, "argument", _TRANSPLANT, {}, change, other, returned)
        repair.size = composing.count
        return repair


def _with_element(returned: str, at: int, text: str, count: int) -> str:
    """Return a tuple of one line with another element; empty for anything else that is returned."""
    try:
        whole = ast.parse(returned, mode="eval").body
    except SyntaxError:
        return ""
    if (
        not isinstance(whole, ast.Tuple)
        or len(whole.elts) != count
        or "\n" in returned
        or not returned.isascii()
    ):
        return ""
    old = whole.elts[at]
    return returned[: old.col_offset] + text + returned[old.end_col_offset :]


def _in_place_of(text: str, record: Record, other: Record) -> Change:
    """An expression in place of another, in words."""
    mine, theirs = other.site.whole, record.site.whole
    write = f"`{text}` in place of `{record.site.source or theirs}`"  # whole, as an edit needs it
    return Change((), {}, None, "call", f"`{mine}`", f"`{theirs}`", write)


def _by_site(tape: Tape, calls: Sequence[int]) -> list[list[int]]:
    """The calls that one expression of a file makes, for each expression."""
    found: dict[tuple[Any, ...], list[int]] = {}
    for at in calls:
        site = tape.records[at].site
        found.setdefault((site.file, site.span, site.text, at * (not any(site.span))), []).append(at)
    return list(found.values())


def _shapes(tape: Tape, calls: Sequence[int]) -> list[list[tuple[int, ...]]]:
    """The shapes of what some calls give."""
    return [[array.shape for array in tape.records[at].arrays] for at in calls]


def values_of(other: int) -> Edit:
    """Return the values of a call that computes the same as one of the source's."""
    return lambda draw, _: draw.source.records[other].arrays


def _passing(ref: Ref) -> Edit:
    """Return the values of a call that passes its input on."""
    return lambda draw, values: [values[ref] if ref in values else draw.target.value(ref)]


def _given(at: int, ref: Ref, other: int) -> Edit:
    """Return the values of a call that takes the result of a source's call in place of a value."""

    def made(draw: Draw, values: Values) -> list[np.ndarray] | None:
        return draw.target.run(draw.target.records[at], {**values, ref: draw.source.records[other].arrays[0]})

    return made


def _written_for(tape: Tape, ref: Ref, calls: Sequence[int]) -> str:
    """Return the expression of some calls for a value that they take; empty if none writes it."""
    for at in calls:
        record = tape.records[at]
        for place, item in enumerate(record.args):
            if item == ref and place < len(record.site.operands):
                return record.site.operands[place]
    return ""
