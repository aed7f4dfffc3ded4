"""Records what a comparison covered: draws, sizes, regions of bends, parameters; and what it did not."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .report import ModuleRow

_SHOWN = 3
"""Number of unproved items that the line lists."""


@dataclass(slots=True)
class Covered:
    """The coverage of the comparison so far.

    Attributes:
        draws: kinds of inputs, in order.
        batches: sizes of the batch.
        refused: cases in which the source itself does not run, or not as in others.
        unreached: regions of functions that bend, and branches, that no input led into, in words.
        bends: number of such regions.
        sensitivity: what changes of parameters did; None where that was not measured.
    """

    draws: list[str] = field(default_factory=list)
    batches: list[int] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    unreached: list[str] = field(default_factory=list)
    bends: int = 0
    sensitivity: Sensitivity | None = None

    def add(self, draw: str, sizes: Mapping[str, int], batch: Collection[str]) -> None:
        """Add a compared case."""
        if draw not in self.draws:
            self.draws.append(draw)
        found = {sizes[symbol] for symbol in batch if symbol in sizes}
        self.batches = sorted({*self.batches, *found})

    def of(self, rows: Sequence[ModuleRow]) -> Coverage:
        """Return the coverage, with the number of compared modules."""
        compared = sum(row.passed is not None for row in rows)
        return Coverage(
            len(rows),
            compared,
            self.draws,
            self.batches,
            self.bends,
            self.unreached,
            self.refused,
            self.sensitivity,
        )


@dataclass(frozen=True, slots=True)
class Coverage:
    """The coverage of a comparison, and the unproved parts.

    Attributes:
        calls: number of module calls of the source.
        compared: how many of them were compared.
        draws: kinds of inputs on which outputs were compared.
        batches: sizes of the batch at which they were.
        bends: regions between the points at which the source's functions bend.
        unreached: those, and branches, that no input led into, in words.
        refused: cases in which the source does not run, or gives another shape.
        sensitivity: what changes of parameters did; None where it was not measured.
    """

    calls: int
    compared: int
    draws: list[str]
    batches: list[int]
    bends: int
    unreached: list[str]
    refused: list[str]
    sensitivity: Sensitivity | None = None

    def line(self) -> str:
        """Return the coverage as one line."""
        parts = [f"{self.compared} of {self.calls} module calls"]
        if self.sensitivity is not None:
            parts.append(self.sensitivity.phrase())
        parts.append(f"{len(self.draws)} draw{'s' if len(self.draws) != 1 else ''}")
        if self.batches:
            plural = "es" if len(self.batches) != 1 else ""
            parts.append(f"batch{plural} {', '.join(map(str, self.batches))}")
        missing = self.unproved()
        if missing:
            more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
            return f"covered: {', '.join(parts)}; not proved: {'; '.join(missing[:_SHOWN])}{more}"
        return f"covered: {', '.join(parts)}"

    def unproved(self) -> list[str]:
        """Describe what was not proved."""
        found = [] if self.sensitivity is None else self.sensitivity.unproved()
        found += self.unreached
        if self.refused:
            more = f" and {len(self.refused) - 1} more" if len(self.refused) > 1 else ""
            found.append(f"{self.refused[0]}{more}, which the source refuses")
        return found


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """The effects of changing each parameter, by which a wrong one would be noticed.

    Attributes:
        parameters: floating-point parameters and statistics that the source reads.
        moved: how many of them move an output.
        alone: those that move what their own module gives, and no output.
        unnoticed: those that move nothing.
        unmeasured: why it is not known what moves outputs, or of which parameters; empty where it is.
        by_modules: whether a change counts that moves what its module gives: all modules were compared on
            equal values, and outputs were not asked.
    """

    parameters: int
    moved: int
    alone: list[str] = field(default_factory=list)
    unnoticed: list[str] = field(default_factory=list)
    unmeasured: str = ""
    by_modules: bool = False

    def phrase(self) -> str:
        """Return the numbers as a phrase."""
        if self.by_modules or (self.unmeasured and not self.moved):
            return f"{len(self.alone)} of {self.parameters} parameters moved their module's values"
        return f"{self.moved} of {self.parameters} parameters moved an output"

    def unproved(self) -> list[str]:
        """Describe the parameters whose faults would not be noticed."""
        found: list[str] = []
        if self.unnoticed:
            found.append(f"{_list_names(self.unnoticed)} moved nothing")
        if self.alone and not self.by_modules and (self.moved or not self.unmeasured):
            found.append(f"{_list_names(self.alone)} moved no output, only the results of a module alone")
        if self.unmeasured:
            found.append(f"parameters: {self.unmeasured}")
        return found


def _list_names(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(f"`{name}`" for name in names[:_SHOWN]) + more
