"""The result of comparing two training scripts, and its text."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..braces import braced

_SHOWN = 6
"""Lines of parameters, rates and the like that are shown of many."""


@dataclass(frozen=True, slots=True)
class RecipeRow:
    """One setting that differs.

    Attributes:
        setting: its name.
        source: its value in the source; empty where `target` says what differs.
        target: in the target.
        counts: whether the two train differently by it; else it is a remark.
        parameters: the target's parameters that it holds for; empty for all.
        why: what it does, or where it comes from.
        advice: what to write in the target's script.
        place: file and line of the target's script to write it at.
    """

    setting: str
    source: str
    target: str
    counts: bool = True
    parameters: tuple[str, ...] = ()
    why: str = ""
    advice: str = ""
    place: str = ""

    def lines(self) -> list[str]:
        """Return its text, with the fix."""
        found = f"{self.setting}: {self.source} in the source, {self.target} in the target"
        if not self.source:
            found = f"{self.setting}: {self.target}"
        if self.parameters:
            names = braced(self.parameters)
            more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
            held = ", ".join(f"`{n}`" for n in names[:_SHOWN]) + more
            count = len(self.parameters)
            found += f", for {count} parameter{'s' if count != 1 else ''}: {held}"
        lines = [f"  {found}"]
        if self.why:
            lines.append(f"    {self.why}")
        where = f" - at {self.place}" if self.place else ""
        if self.advice:
            lines.append(f"    write: {self.advice}{where}")
        elif where:
            lines.append(f"    at {self.place}")
        return lines


@dataclass(frozen=True, slots=True)
class LeftAt:
    """The place where a trajectory leaves tolerance.

    Attributes:
        step: the number of steps made.
        parameter: the first parameter or statistic to leave, "loss" for the loss alone.
        apart: how far it is from where it should be, relative to the way that it went.
        tolerance: what was allowed.
    """

    step: int
    parameter: str
    apart: float
    tolerance: float


@dataclass(frozen=True, slots=True)
class TrajectoryReport:
    """Some steps on both sides from equal weights on equal data.

    Attributes:
        steps: how many.
        source: losses of the source.
        target: losses of the target.
        exact: losses in float64; empty where there are none.
        left: where the target first leaves tolerance; None where it does not.
        apart: the largest distance of a parameter after the last step, relative to the way that it went.
        drift: the same of the source itself, by rounding alone.
        decided: parameters that rounding alone decides from some step on, which are not compared from there.
        compared: how many parameters and statistics there are.
    """

    steps: int
    source: list[float]
    target: list[float]
    exact: list[float] = field(default_factory=list)
    left: LeftAt | None = None
    apart: float = 0.0
    drift: float = 0.0
    decided: tuple[str, ...] = ()
    compared: int = 0

    def lines(self) -> list[str]:
        """Return its text: the verdict, then both losses."""
        if self.left is None:
            first = (
                f"{self.steps} steps agree: the parameters end {self.apart:.2g} apart, relative to their way"
            )
            first += f" ({self.drift:.2g} by rounding alone)"
            if self.decided:
                first += f"; rounding decides {len(self.decided)} of {self.compared} before the end"
        else:
            place = "the loss" if self.left.parameter == "loss" else f"`{self.left.parameter}`"
            first = (
                f"leaves tolerance after step {self.left.step} of {self.steps}, first {place}: "
                f"{self.left.apart:.2g} apart, {self.left.tolerance:.2g} allowed"
            )
        lines = [f"trajectory: {first}", f"  loss in the source {_curve(self.source)}"]
        lines.append(f"  loss in the target {_curve(self.target)}")
        return lines


def _curve(losses: list[float]) -> str:
    """Return a few losses of many."""
    shown = losses if len(losses) <= _SHOWN else [*losses[:4], *losses[-2:]]
    texts = [f"{v:.5g}" for v in shown]
    return " ".join([*texts[:4], "…", *texts[4:]] if len(losses) > _SHOWN else texts)


@dataclass(frozen=True, slots=True)
class RecipeReport:
    """Two training scripts compared.

    Attributes:
        source: the source's optimizer and loss.
        target: the target's.
        rows: settings that differ.
        trajectory: some steps of both; None where they were not followed.
        notes: what a reader should know.
    """

    source: str
    target: str
    rows: list[RecipeRow] = field(default_factory=list)
    trajectory: TrajectoryReport | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def differing(self) -> int:
        """Return the number of settings that train differently."""
        return sum(row.counts for row in self.rows)

    @property
    def passed(self) -> bool:
        """Whether nothing that counts differs and the steps that were followed agree."""
        return not self.differing and (self.trajectory is None or self.trajectory.left is None)

    def differences(self) -> str:
        """Summarise the differences; empty if there are none."""
        if self.differing:
            return f"{self.differing} setting{'s' if self.differing > 1 else ''} of the recipe"
        return "" if self.passed else "the trajectory"

    def lines(self) -> list[str]:
        """Their text: what counts, then the trajectory."""
        lines = [f"recipe: {self.source} against {self.target}"]
        counting = [row for row in self.rows if row.counts]
        if counting:
            lines.append("settings of the recipe that differ:")
        lines += [line for row in counting for line in row.lines()]
        if self.trajectory is not None:
            lines += self.trajectory.lines()
        return lines

    def remark_lines(self) -> list[str]:
        """Return lines on differences that do not count, after those that do."""
        remarks = [row for row in self.rows if not row.counts]
        if not remarks:
            return []
        head = "settings of the recipe that are stated differently, or matter little:"
        return ["", head, *(line for row in remarks for line in row.lines())]
