"""Makes the calls of a target again that take what a call gives once it is written otherwise."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from .changes import Change
from .tape import Record, Ref, Tape
from .values import SAME, relation

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
"""Returns the results of an edited call of the target on a draw."""


def written(tape: Tape, at: int, change: Change) -> dict[int, Edit]:
    """A change of one call as the edits that it makes.

    Args:
        tape: the target's calls on the draw that the change was made for.
        at: the call.
        change: how it is written otherwise.
    """

    def edit(at: int, args: tuple[Any, ...], kwargs: dict[str, Any], function: Any) -> Edit:
        first = tape.records[at]

        def made(draw: Draw, values: Values) -> list[np.ndarray] | None:
            record = draw.target.records[at]
            now = _with_sizes(args, first.args, record.args)
            return draw.target.run(replace(record, args=now, kwargs=kwargs, function=function), values)

        return made

    edits = {at: edit(at, change.args, change.kwargs, change.function)}
    for other, args, kwargs, function in change.elsewhere:
        edits[other] = edit(other, args, kwargs, function)
    return edits


def _with_sizes(args: tuple[Any, ...], first: tuple[Any, ...], now: tuple[Any, ...]) -> tuple[Any, ...]:
    """Arguments for another draw: numbers that a call took on the first one are those that it takes now.

    Args:
        args: the arguments as they are written otherwise.
        first: those that the call took on the first draw.
        now: those that it takes on this one.
    """
    if first is now or len(args) != len(first) or len(now) != len(first):
        return args
    out = list(args)
    for at, item in enumerate(args):
        if isinstance(item, int) and not isinstance(item, bool):
            same = [type(other) is int and other == item for other in first]
            places = [at] if same[at] else [p for p, is_same in enumerate(same) if is_same]
            if len(places) == 1:
                out[at] = now[places[0]]
    return tuple(out)


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
    others: dict[int, list[np.ndarray]] = {}
    for at in sorted({*edits, *later}):
        record = draw.target.records[at]
        if at in edits:
            arrays = edits[at](draw, values)
        else:
            arrays = draw.target.run(retaken(draw.target, record, others), values)
        if (
            arrays is not None
            and at in edits
            and len(record.arrays) > 1
            and len(arrays) != len(record.arrays)
        ):
            others[at] = arrays
            arrays = arrays[: len(record.arrays)]
        elif arrays is None or len(arrays) != len(record.arrays):
            return values if partly and values else None
        if len(edits) == 1 and at in edits and all(map(_is_equal, arrays, record.arrays)):
            return None  # it computes the same
        values |= {Ref(at, leaf): array for leaf, array in enumerate(arrays)}
    return values


def retaken(tape: Tape, record: Record, others: Mapping[int, list[np.ndarray]]) -> Record:
    """A call that takes all that others give, where these give more or fewer than they gave.

    Args:
        tape: the calls.
        record: one of them.
        others: what some of them give instead.
    """

    def taken(item: Any) -> Any:
        first = item[0] if isinstance(item, (list, tuple)) and item else None
        if not isinstance(first, Ref) or first.record not in others:
            return item
        count = len(tape.records[first.record].arrays)
        if list(item) != [Ref(first.record, leaf) for leaf in range(count)]:
            return item
        fresh = list(map(tape.host.tensor, others[first.record]))
        return fresh if len(fresh) > 1 else fresh[0]

    args = tuple(map(taken, record.args)) if others else record.args
    same = all(a is b for a, b in zip(args, record.args, strict=True))
    return record if same else replace(record, args=args)


def _is_equal(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and np.array_equal(a, b)
