"""Finds the calls in which a target goes another way, by making them again, written otherwise."""

from __future__ import annotations

import time
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from .changes import Change, Hints, changes_of, hints_of
from .likeness import likenesses
from .repairs import Repair, Repairing, cost_of, cost_of_call, plain
from .replaying import Draw, Edit, Values, replayed, retaken, written
from .substitutes import Substitutes
from .tape import Record, Ref, Tape, behind
from .values import SAME, SHAPED, TURNED, Pool, is_plain, relation

_APART = 1e-3
"""Share of the largest value from which a difference is no rounding, nor what is left of it."""

TOLERANCES = (1e-5, 1e-6, 1e-4)
"""Shares of the largest value up to which values count as equal; tried in turn."""

_MOST_CAUSES = 6
_MOST_REJECTED = 12
_WRITTEN_OUT = 16
"""Calls behind the first that differs in which its cause may lie, where a function is written out."""


@dataclass(frozen=True, slots=True)
class Found:
    """A call that a target makes otherwise than its source.

    Attributes:
        record: the target's call; None where the target makes none.
        other: the source's call that stands for it, where one does.
        change: how the call is to be written; None where it has no counterpart.
        kind: "argument", "operator", "other function", "missing" or "extra".
        behind: of a call that is missing at the end: the target's last one.
        arrays: the values that enter `other`.
        text: how `other` is written in the target's framework; empty where nobody knows yet.
        passed: of a call that is too many: the value that stays.
    """

    record: Record | None
    other: Record | None
    change: Change | None
    kind: str
    behind: Record | None = None
    arrays: dict[Ref, np.ndarray] = field(default_factory=dict)
    text: str = ""
    passed: Ref | None = None

    def at(self, target: Tape) -> int:
        """The place of its record among the target's; -1 where it has none."""
        return next((at for at, record in enumerate(target.records) if record is self.record), -1)


def find_causes(draws: Sequence[Draw], end: float) -> list[Found]:
    """Return what makes the outputs of two runs differ, the first first.

    Args:
        draws: calls of both sides on the same inputs, with the same weights; the target's are changed as
            calls are mended. What is found on the first draw has to hold on the others.
        end: when to stop, by the clock of the process, which other work on the machine does not move.
    """
    out: list[Found] = []
    long: Found | None = None
    source, target = draws[0]
    rejected: set[tuple[int, str]] = set()
    while len(out) < _MOST_CAUSES and len(rejected) < _MOST_REJECTED:
        tolerance = next((t for t in TOLERANCES if draws[0].wrong_outputs(t)), None)
        if tolerance is None:
            break
        search = _Search(source, target, tolerance, end, rejected)
        repair = search.whole(draws) if long is None else None
        if repair is not None:
            last = _found(repair, target)
            if repair.is_short:
                again = [_found(each, target) for each in repair.again]
                return [*out, *(_entered(each, source) for each in (last, *again))]
            long = long or (_entered(last, source) if not out else None)
        found = search.first()
        if found is None:
            break
        again = [found[1]]
        change, at = found[0].change, found[0].at(target)
        if change is not None and found[1]:
            confirmed = _confirmed(draws[1:], search, at, change, found[1])
            if confirmed is None:
                rejected.add((at, change.write))
                continue
            again += confirmed
        out.append(_entered(found[0], source))
        if not found[1]:
            break
        for draw, values in zip(draws, again, strict=False):
            for ref, array in values.items():
                draw.target.records[ref.record].arrays[ref.leaf] = array
        draws = draws[: len(again)]
    wrong = all(draws[0].wrong_outputs(tolerance) for tolerance in TOLERANCES)
    is_all = not wrong and all(cause.change is not None for cause in out)
    return out if long is None or is_all or (long.change is None and out) else [long]


def _found(repair: Repair, target: Tape) -> Found:
    record = repair.record or target.records[repair.at]
    return Found(record, repair.other, repair.change, repair.kind, text=repair.text, passed=repair.passed)


def _entered(found: Found, source: Tape) -> Found:
    """A difference with the values that enter the source's call."""
    refs = () if found.other is None else found.other.refs()
    return replace(found, arrays={ref: source.value(ref) for ref in refs})


def _confirmed(
    draws: Sequence[Draw], search: _Search, at: int, change: Change, values: Values
) -> list[Values] | None:
    """The target's values on other draws once a call is written otherwise.

    None where no value of them is the source's that is so on the first draw.
    """
    goals = search.goals()
    pairs = [(ref, goal, how) for ref, a in values.items() if not is_plain(a) for goal, how in goals.find(a)]
    out: list[Values] = []
    for draw in draws:
        again = replayed(draw, written(search.target, at, change), behind(draw.target, [at]), partly=True)
        if again is None or not any(
            ref in again
            and _LIKE[relation(again[ref], draw.source.value(goal), search.tolerance)] >= _LIKE[how]
            for ref, goal, how in pairs
        ):
            return None
        out.append(again)
    return out


_LIKELY, _ANY, _OPERANDS = 3, 9, 10
"""Ranks of changes that are tried first, of all but other operands, and of these."""

_LIKE = {"": 0, TURNED: 1, SHAPED: 2, SAME: 3}


class _Search:
    """One look for the first difference.

    Args:
        source: the source's calls.
        target: the target's.
        tolerance: how close equal values are.
        end: when to stop.
        rejected: (call, what to write) of changes that did not hold on another draw.
    """

    def __init__(
        self,
        source: Tape,
        target: Tape,
        tolerance: float,
        end: float,
        rejected: Container[tuple[int, str]] = (),
    ) -> None:
        self.source, self.target, self.tolerance, self.end = source, target, tolerance, end
        self.rejected = rejected
        self.pools = [Pool(_values(tape), tolerance) for tape in (source, target)]
        self._known: tuple[dict[Ref, list[tuple[Ref, str]]], ...] = ({}, {})
        self.wrong = Draw(source, target).wrong_outputs(tolerance)
        self.substitutes = Substitutes(source, target, end)
        self.mine: list[int] = []
        self.strict = False

    def matches(self, side: int, ref: Ref) -> list[tuple[Ref, str]]:
        """The values of the other side that one equals: 0 for the source's values, 1 for the target's."""
        known = self._known[side]
        if ref not in known:
            tape = (self.source, self.target)[side]
            known[ref] = self.pools[1 - side].find(tape.value(ref))
        return [(other, how) for other, how in known[ref] if how == SAME] if self.strict else known[ref]

    def unmatched(self, side: int) -> list[int]:
        """The records from which a wrong output comes, as far back as values have no counterpart."""
        tape = (self.source, self.target)[side]
        stack = [
            ref for at in self.wrong if (ref := tape.outputs[at]) is not None and not self._is_inner(side, at)
        ]
        found: set[int] = set()
        seen: set[Ref] = set(stack)
        while stack:
            ref = stack.pop()
            found.add(ref.record)
            for other in tape.records[ref.record].refs():
                if other not in seen and not self.matches(side, other):
                    seen.add(other)
                    stack.append(other)
        return sorted(at for at in found if tape.records[at].kind != "input")

    def _is_inner(self, side: int, at: int) -> bool:
        """Whether a wrong output of one side alone is a value that the other computes with."""
        inner: list[bool] = []
        for each, tape, other in ((0, self.source, self.target), (1, self.target, self.source)):
            output = tape.outputs[at]
            found = [] if output is None else self.matches(each, output)
            inner.append(any(how == SAME and ref not in other.outputs for ref, how in found))
        return inner[side] and not inner[1 - side]

    def whole(self, draws: Sequence[Draw]) -> Repair | None:
        """Return the likeliest change that makes all outputs right on all draws."""
        mine: set[int] = set()
        theirs: set[int] = set()
        for self.strict in (True, False):
            mine |= set(self.unmatched(0))
            theirs |= set(self.unmatched(1))
        self.mine = sorted(mine)
        hints = hints_of(self.source, self._around(self.mine) or range(len(self.source.records)))
        half = time.process_time() + (self.end - time.process_time()) / 2
        close = max(self.tolerance, TOLERANCES[-1] if draws[0].wrong_outputs(_APART) else 0)
        theirs |= set(self._givers())
        standing = (self.mine or self._outermost())[:_WRITTEN_OUT]

        def substitutes(record: Record, *, deep: bool) -> Iterator[Change]:
            return (change for change, _ in self.substitutes.of(record, standing, deep=deep))

        return Repairing(
            list(draws),
            close,
            self.mine,
            sorted(theirs),
            self.matches,
            hints,
            self._counterpart,
            substitutes,
            self._leads,
            half,
        ).find()

    def _leads(self, at: int, edit: Edit, until: int) -> bool:
        """Whether a call written otherwise leads to a value of the source's before another call.

        Args:
            at: the target's call.
            edit: how it is written.
            until: the other one.
        """
        arrays = edit(Draw(self.source, self.target), {})
        old = self.target.records[at].arrays
        if arrays is None or len(arrays) != len(old) or all(map(np.array_equal, arrays, old)):
            return False
        values = {Ref(at, leaf): array for leaf, array in enumerate(arrays)}
        goals = self.goals()
        later = [record for record in behind(self.target, [at]) if record < until]
        return self._reaches(values, goals) or self._replay(later[:_WRITTEN_OUT], values, goals)

    def goals(self) -> Pool:
        """The source's values that the target does not have."""
        return self._goals(self.mine)

    def first(self) -> tuple[Found, Values] | None:
        """Return the first difference, and what the target's values are once it is mended.

        A value that lies otherwise than its counterpart counts as right where that leads to a cause.
        """
        for most, strict in ((_LIKELY, False), (_LIKELY, True), (_ANY, False), (_ANY, True)):
            if strict and not self._is_loose():
                continue
            found = self._argument(most, strict=strict)
            if found is not None:
                return found
        self.strict = False
        self.mine, theirs = self.unmatched(0), self.unmatched(1)
        goals, frontier = self._goals(self.mine), self._frontier(theirs)
        return (
            self._extra(goals, frontier)
            or self._argument(_OPERANDS, strict=False)
            or self._missing(self.mine, goals, frontier)
            or self._tail(self.mine, theirs)
            or self._other_function(self.mine, goals, frontier)
        )

    def _is_loose(self) -> bool:
        """Whether some value that lies otherwise counted as right: else a strict look finds the same."""
        return any(how != SAME for side in self._known for found in side.values() for _, how in found)

    def _argument(self, most: int, *, strict: bool) -> tuple[Found, Values] | None:
        """The first call that gives the source's values once an argument of it is another.

        Args:
            most: rank of the changes that are tried.
            strict: whether a value counts as right only if it lies as its counterpart does.
        """
        self.strict = strict
        self.mine, theirs = self.unmatched(0), self.unmatched(1)
        hints = hints_of(self.source, self._around(self.mine) or range(len(self.source.records)))
        goals = self._goals(self.mine)
        for at in [*theirs[:_WRITTEN_OUT], *(self._givers() if most == _LIKELY else ())]:
            record = self.target.records[at]
            if time.process_time() > self.end:
                return None
            best = self._best(record, at, goals, hints, most)
            if best is not None:
                kind = "operator" if record.kind == "operator" else "argument"
                return Found(record, self._counterpart(record, self.mine), best[0], kind), best[1]
        return None

    def _givers(self) -> list[int]:
        """The target's calls that give an inner value of the source's, of what its last call takes."""
        found: list[int] = []
        for at in self.wrong:
            outputs = self.source.outputs[at], self.target.outputs[at]
            if outputs[0] is None or outputs[1] is None or not self._is_inner(1, at):
                continue
            taken = [[self.source.value(ref) for ref in self.source.records[outputs[0].record].refs()]]
            taken += [[self.target.value(ref) for ref in self.target.records[outputs[1].record].refs()]]
            if len(taken[0]) == len(taken[1]) and all(map(self._are_same, *taken)):
                found.append(outputs[1].record)
        return found

    def _frontier(self, theirs: list[int]) -> list[int]:
        """Return the records that take nothing from the others."""
        return [at for at in theirs if not any(r.record in theirs for r in self.target.records[at].refs())]

    def _goals(self, mine: list[int]) -> Pool:
        refs = [Ref(at, leaf) for at in mine for leaf in range(len(self.source.records[at].arrays))]
        refs += [ref for at in self.wrong if (ref := self.source.outputs[at]) is not None and ref not in refs]
        return Pool([(ref, self.source.value(ref)) for ref in refs], self.tolerance)

    def _best(
        self, record: Record, at: int, goals: Pool, hints: Hints, most: int
    ) -> tuple[Change, Values] | None:
        found: tuple[Change, Values] | None = None
        other = self._counterpart(record, self.mine)
        like = likenesses(self.target, record, other, self.source.host)
        changes = changes_of(self.target, record, hints, like)
        for change in self._operands(record, at) if most == _OPERANDS else changes:
            if time.process_time() > self.end:
                break
            if change.rank > most or (most == _ANY and change.rank <= _LIKELY):
                continue
            if found is not None and change.rank >= found[0].rank:
                continue
            if (at, change.write) in self.rejected:
                continue
            again = replace(record, args=change.args, kwargs=change.kwargs, function=change.function)
            arrays = self.target.run(again, {})
            values = None if arrays is None else self._mends(at, arrays, goals)
            if values is not None:
                found = change, values
                if not change.rank:
                    break
        if most == _ANY or (found is not None and _is_settled(record, other, found[0])):
            return found
        return self._written(record, at, deep=most == _OPERANDS) or found

    def _written(self, record: Record, at: int, *, deep: bool) -> tuple[Change, Values] | None:
        """A call of the source's in the place of one of the target's; see `Substitutes`."""
        mine = (self.mine or self._outermost())[:_WRITTEN_OUT]
        for change, each in self.substitutes.of(record, mine, deep=deep):
            if (at, change.write) in self.rejected:
                continue
            arrays = self.target.run(
                replace(record, args=change.args, kwargs={}, function=change.function), {}
            )
            wanted = self.source.records[each].arrays
            if arrays is not None and len(arrays) == len(wanted) and all(map(self._are_same, arrays, wanted)):
                values = self._stands_for(at, arrays, each)
                if values is not None:
                    return change, values
        return None

    def _stands_for(self, at: int, arrays: list[np.ndarray], each: int) -> Values | None:
        """The target's values if a record gives what one of the source's does, where it has its place.

        Args:
            at: the target's record.
            arrays: what the source's gives.
            each: the source's record.
        """
        wanted = [
            self.source.value(ref)
            for record in behind(self.source, [each])
            for ref in (Ref(record, leaf) for leaf in range(len(self.source.records[record].arrays)))
        ]
        values = self._with_others(at, arrays)
        self._replay([r for r in behind(self.target, [at]) if not _has(values, r)], values, None)
        for output in self.wrong:
            ref, goal = self.target.outputs[output], self.source.outputs[output]
            if ref in values and goal is not None and self._are_same(values[ref], self.source.value(goal)):
                return values
        for ref, array in values.items():
            if ref.record == at or is_plain(array) or self._are_same(array, self.target.value(ref)):
                continue
            if any(self._are_same(array, goal) for goal in wanted):
                return values
        return None

    def _with_others(self, at: int, arrays: list[np.ndarray]) -> Values:
        """The values of a record that gives others; of more or fewer, those of the calls that take all."""
        old = self.target.records[at].arrays
        values: Values = {Ref(at, leaf): array for leaf, array in enumerate(arrays[: len(old)])}
        if len(arrays) == len(old):
            return values
        for later in behind(self.target, [at]):
            record = self.target.records[later]
            again = retaken(self.target, record, {at: arrays})
            found = None if again is record else self.target.run(again, {})
            if found is not None and len(found) == len(record.arrays):
                values |= {Ref(later, leaf): array for leaf, array in enumerate(found)}
        return values

    def _are_same(self, a: np.ndarray, b: np.ndarray) -> bool:
        return a.shape == b.shape and relation(a, b, self.tolerance) == SAME

    def _outermost(self) -> list[int]:
        """The source's records that give wrong outputs."""
        given = (self.source.outputs[at] for at in self.wrong)
        return [ref.record for ref in given if ref is not None]

    def _operands(self, record: Record, at: int) -> Iterator[Change]:
        """Another value of the target's as an operand: one that a call of the source's takes."""
        wanted: dict[Ref, tuple[str, str]] = {}
        for each in self.mine:
            known = self.source.records[each]
            for place, item in enumerate(known.args):
                if isinstance(item, Ref):
                    text = known.site.operand(place)
                    for ref, how in self.matches(0, item):
                        if how == SAME and ref.record < at:
                            line = f" ({known.site.place})" if known.site.place else ""
                            wanted.setdefault(ref, (text, line))
        for place, item in enumerate(record.args):
            for ref, (text, line) in wanted.items():
                if isinstance(item, Ref) and ref != item:
                    args = (*record.args[:place], ref, *record.args[place + 1 :])
                    now = record.site.operand(place)
                    yield Change(
                        args,
                        record.kwargs,
                        record.function,
                        f"operand of `{record.site.text}`",
                        f"`{text}`{line}",
                        f"`{now}`",
                        f"what is `{text}` in the source, in place of `{now}`",
                        _OPERANDS,
                    )

    def _mends(self, at: int, arrays: list[np.ndarray], goals: Pool) -> Values | None:
        """The target's values if a record gives others, where that leads to a value of the source's."""
        old = self.target.records[at].arrays
        if len(old) == 1 < len(arrays):
            return None
        if len(arrays) == len(old) and all(map(np.array_equal, arrays, old)):
            return None
        values = self._with_others(at, arrays)
        reached = self._reaches(values, goals)
        later = behind(self.target, [at])
        if not reached and not self._replay(later[:_WRITTEN_OUT], values, goals):
            return None
        self._replay([r for r in later if not _has(values, r)], values, None)
        return values

    def _reaches(self, values: Values, goals: Pool) -> bool:
        """Whether one of some values is the source's, and lies as it does there more than the old one did."""
        for ref, array in values.items():
            if is_plain(array):
                continue
            for goal, how in goals.find(array):
                before = relation(self.target.value(ref), self.source.value(goal), self.tolerance)
                if _LIKE[how] > _LIKE[before]:
                    return True
        return False

    def _replay(self, records: list[int], values: Values, goals: Pool | None) -> bool:
        """Make the calls again that take changed values; whether one gives a goal, which is the last then."""
        for at in records:
            record = self.target.records[at]
            arrays = self.target.run(record, values)
            if arrays is None or len(arrays) != len(record.arrays):
                return False
            fresh = {Ref(at, leaf): array for leaf, array in enumerate(arrays)}
            values |= fresh
            if goals is not None and self._reaches(fresh, goals):
                return True
        return False

    def _counterpart(self, record: Record, mine: list[int]) -> Record | None:
        """The source's call that takes the same values and has the likeliest name."""
        entering = {match for ref in record.refs() for match, _ in self.matches(1, ref)}
        found = [
            self.source.records[at]
            for at in mine or self._outermost()
            if any(ref in entering for ref in self.source.records[at].refs())
        ]
        same = [r for r in found if plain(r.name) == plain(record.name)]
        return next(iter([*same, *found]), None)

    def _around(self, mine: list[int]) -> list[int]:
        """Records of the source's, and those that give what they take."""
        found = set(mine)
        for _ in range(2):
            found |= {ref.record for at in found for ref in self.source.records[at].refs()}
        return [*mine, *sorted(found - set(mine))]

    def _extra(self, goals: Pool, frontier: list[int]) -> tuple[Found, Values] | None:
        """A call that the target makes and the source does not."""
        for at in frontier:
            record = self.target.records[at]
            for ref in record.refs():
                given = self.target.value(ref)
                if len(record.arrays) == 1 and record.arrays[0].shape == given.shape:
                    values = self._mends(at, [given], goals)
                    if values is not None:
                        return Found(record, None, None, "extra", passed=ref), values
        return None

    def _missing(self, mine: list[int], goals: Pool, frontier: list[int]) -> tuple[Found, Values] | None:
        """A call that the source makes before one of the target's, and the target does not."""
        for at in frontier:
            record = self.target.records[at]
            for ref in record.refs():
                entering = {match for match, _ in self.matches(1, ref)}
                for other in mine:
                    known = self.source.records[other]
                    if not any(r in entering for r in known.refs()) or len(known.arrays) != 1:
                        continue
                    if known.arrays[0].shape != self.target.value(ref).shape:
                        continue
                    arrays = self.target.run(record, {ref: known.arrays[0]})
                    values = None if arrays is None else self._mends(at, arrays, goals)
                    if values is not None:
                        return Found(record, known, None, "missing"), values
        return None

    def _other_function(
        self, mine: list[int], goals: Pool, frontier: list[int]
    ) -> tuple[Found, Values] | None:
        """A call whose place another function has in the source."""
        for at in frontier:
            record = self.target.records[at]
            other = self._counterpart(record, mine)
            if other is not None:
                values = None
                if [a.shape for a in other.arrays] == [a.shape for a in record.arrays]:
                    values = self._mends(at, other.arrays, goals)
                return Found(record, other, None, "other function"), values or {}
        return None

    def _tail(self, mine: list[int], theirs: list[int]) -> tuple[Found, Values] | None:
        """Return the last operations of one side on a value that the other returns unchanged."""
        for at in self.wrong:
            outputs = self.source.outputs[at], self.target.outputs[at]
            if outputs[0] is None or outputs[1] is None:
                continue
            back = [(ref, how) for ref, how in self.matches(1, outputs[1]) if how == SAME]
            if back and outputs[0].record in mine:
                known = [self.source.records[r] for r in mine]
                start = next(
                    (r for r in known if any(ref in {m for m, _ in back} for ref in r.refs())), known[0]
                )
                last = self.target.records[outputs[1].record]
                return Found(None, start, None, "missing", last), {}
            forth = [(ref, how) for ref, how in self.matches(0, outputs[0]) if how == SAME]
            if forth and outputs[1].record in theirs:
                known = [self.target.records[r] for r in theirs]
                start = next(
                    (r for r in known if any(ref in {m for m, _ in forth} for ref in r.refs())), known[0]
                )
                return Found(start, None, None, "extra"), {}
        return None


def _is_settled(record: Record, other: Record | None, change: Change) -> bool:
    """Whether a change says more than the source's call written out does."""
    return cost_of(change) < cost_of_call(record, other)


def _has(values: Values, record: int) -> bool:
    return any(ref.record == record for ref in values)


def _values(tape: Tape) -> Iterator[tuple[Ref, np.ndarray]]:
    for at, record in enumerate(tape.records):
        for leaf, array in enumerate(record.arrays):
            yield Ref(at, leaf), array
