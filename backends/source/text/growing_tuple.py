"""Finds runs of steps that each take all earlier values of the run: a growing tuple, as in DenseNet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ....ir import Value
from ..definitions import Statement
from ..expressions import Access, Part, Use, only_call

NAME = "features"
"""The variable of the tuple."""

_SHORTEST = 3


@dataclass(frozen=True, slots=True)
class GrowingTuple:
    """A run of steps of a method.

    Attributes:
        start: the number of its first step.
        callees: what each step calls.
        values: what the first step is given, then what each step makes.
    """

    start: int
    callees: tuple[Access, ...]
    values: tuple[Value, ...]

    @property
    def stop(self) -> int:
        """The number of the step after it."""
        return self.start + len(self.callees)

    @property
    def made(self) -> tuple[Value, ...]:
        """The values that its steps make."""
        return self.values[-len(self.callees) :]

    def is_whole(self, parts: Sequence[Part]) -> bool:
        """Whether parts are all of its values, in order."""
        return len(parts) == len(self.values) and all(
            isinstance(p, Use) and p.value == v for p, v in zip(parts, self.values, strict=True)
        )


def find_growing_tuples(steps: Sequence[Statement], name_of: Callable[[Value], str]) -> list[GrowingTuple]:
    """Return the runs of three steps or more, by where they start.

    Args:
        steps: steps of a method, in order.
        name_of: the variable of a value; empty for one that is written where it is used.
    """
    found = [_run_from(steps, at, name_of) for at in range(len(steps) - _SHORTEST + 1)]
    return [run for run in found if len(run.callees) >= _SHORTEST]


def _run_from(steps: Sequence[Statement], start: int, name_of: Callable[[Value], str]) -> GrowingTuple:
    """Return the longest run from a step in which each step takes all values of the run so far."""
    callees: list[Access] = []
    values: list[Value] = []
    for step in steps[start:]:
        call = only_call(step.expression)
        if call is None or not isinstance(call.callee, Access) or step.results or len(step.targets) != 1:
            break
        given = [a.value.value for a in call.arguments if isinstance(a.value, Use) and not a.name]
        names = list(map(name_of, given))
        plain = given and len(given) == len(call.arguments) and all(names)
        if not plain or call.callee.has_member or (callees and given != values):
            break
        if name_of(step.targets[0]) in names:
            break
        callees.append(call.callee)
        values = [*given, *step.targets]
    return GrowingTuple(start, tuple(callees), tuple(values))
