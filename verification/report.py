"""The result of a verification: rows for outputs and module calls, the first divergence, and their text."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from ..ir import folded_markup, table_markup, text_markup
from .compare import DECIDED, UNDECIDED
from .coverage import Coverage
from .report_text import render, tables_of, tell_causes

if TYPE_CHECKING:
    from .certificate.verdict import Certificate
    from .decoding.report import Steps
    from .recipes.report import RecipeReport
    from .structure.report import Structure
    from .two_nets.report import Laws, Nets


@dataclass(frozen=True, slots=True)
class OutputRow:
    """One output in one case.

    Attributes:
        name: the output's name in the source.
        case: which inputs: ``N=2``.
        shape: the source's shape.
        max_abs: largest absolute difference.
        max_rel: the same relative to the source's largest absolute value.
        tolerance: what was allowed.
        passed: whether it is within the tolerance.
        reason: why not, or a remark.
        noise: how far rounding alone moves the source's result; None where the error was too small to ask.
        unproven: why agreement proves nothing ("NaN everywhere"); empty where it proves something.
        only: what `unproven` would say of the only number of an output of floats; empty for others.
    """

    name: str
    case: str
    shape: tuple[int, ...]
    max_abs: float
    max_rel: float
    tolerance: float
    passed: bool
    reason: str = ""
    noise: float | None = None
    unproven: str = ""
    only: str = ""


@dataclass(frozen=True, slots=True)
class ModuleRow:
    """One module call of the source.

    Attributes:
        call: ``path#n``.
        class_name: class in the source.
        max_abs: largest absolute difference at its outputs in the whole model; None when not compared.
        max_rel: the same relative to the largest absolute value.
        tolerance: what was allowed.
        isolated_max_abs: largest difference when the target's module runs alone on recorded inputs.
        isolated_passed: whether that is within tolerance; None when it was not run.
        passed: whether boundary and isolated run are; None when nothing was compared.
        reason: why it failed, or why it was not compared.
        noise: how far rounding alone moves the source's outputs; None where the error was too small to ask.
        isolated_tolerance: what was allowed when it runs alone.
        unproven: why agreement at its boundary proves nothing; empty where it proves something.
        isolated_unproven: why its agreement alone proves nothing.
        driven: whether it agreed alone on the recorded inputs, and not on inputs made of these.
    """

    call: str
    class_name: str
    max_abs: float | None = None
    max_rel: float | None = None
    tolerance: float | None = None
    isolated_max_abs: float | None = None
    isolated_passed: bool | None = None
    passed: bool | None = None
    reason: str = ""
    noise: float | None = None
    isolated_tolerance: float | None = None
    unproven: str = ""
    isolated_unproven: str = ""
    driven: bool = False

    @property
    def verdict(self) -> str:
        """``passed``, ``FAILED: why`` or ``not compared: why``."""
        if self.passed is None:
            return f"not compared: {self.reason}"
        return "passed" if self.passed else f"FAILED: {self.reason}"


@dataclass(frozen=True, slots=True)
class TrainingRow:
    """One parameter or running statistic of the source after one training step.

    Attributes:
        parameter: its path in the source; several joined by " + " where the target holds them once.
        target: its name in the target.
        gradient_max_abs: largest absolute difference of the gradients; None for what is not trained.
        gradient_max_rel: the same relative to the source's largest absolute value.
        step_max_abs: largest absolute difference of the values after the optimiser's step.
        statistic_max_abs: largest absolute difference after the forward of what the forward itself updates.
        tolerance: what was allowed for the gradient or the statistic.
        passed: whether all of it is within tolerance; None when nothing was compared.
        reason: why not, or a remark.
        frozen: where one side alone trains it: the side that does not, "source" or "target"; else empty.
        step_tolerance: what was allowed for the values after the step; None for what is not trained.
    """

    parameter: str
    target: str
    gradient_max_abs: float | None = None
    gradient_max_rel: float | None = None
    step_max_abs: float | None = None
    statistic_max_abs: float | None = None
    tolerance: float | None = None
    passed: bool | None = None
    reason: str = ""
    frozen: str = ""
    step_tolerance: float | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """The result of a verification.

    Attributes:
        source: what ran as the source, and where.
        target: what ran as the target, and where.
        yardstick: how the tolerances came about.
        outputs: one row per output and case.
        modules: one row per module call of the source, in call order.
        first_divergence: the call in which the target goes wrong, or None.
        notes: what a reader should know besides.
        training: one row per parameter and running statistic after one training step; empty when not asked.
        training_divergence: the place where training first goes wrong, in words, or None.
        nets: how two nets that were written apart were paired, and how their settings and initial
            distributions compare; None for a target that was made from the source.
        laws: how the initial distributions of an emitted folder compare with the source's; None for any
            other target.
        unproven: outputs whose agreement proves nothing -> why ("nan everywhere").
        coverage: what was compared, and what that does not prove.
        structure: what numbers do not show of a target that was written from the source: which weights are
            one, and what acts in training only; None for any other target.
        proved_against: "source" where the source ran in its own framework, "graph" where the graph that it
            was lowered to ran in its place, so that the lowering itself is not proved.
        nodes: what every node of the source gave in its own framework, against the graph that it was lowered
            to, one row an output; empty where no framework shows it.
        recipes: how two training scripts compare; None where none were given.
        scope: what alone was compared, as the first line says it; empty where that is not limited.
        one_model: whether source and target are one model, which outputs without elements do not refute.
        certificate: the exact comparison of the source as read with the target as read back; None where
            there was none.
        unshown: outputs that the certificate alone shows to be equal -> why no run does ("nan everywhere").
        steps: how a decoder was stepped; None where steps were not asked for.
    """

    source: str
    target: str
    yardstick: str
    outputs: list[OutputRow] = field(default_factory=list)
    modules: list[ModuleRow] = field(default_factory=list)
    first_divergence: str | None = None
    notes: list[str] = field(default_factory=list)
    training: list[TrainingRow] = field(default_factory=list)
    training_divergence: str | None = None
    nets: Nets | None = None
    laws: Laws | None = None
    unproven: dict[str, str] = field(default_factory=dict)
    coverage: Coverage | None = None
    structure: Structure | None = None
    proved_against: str = "source"
    nodes: list[ModuleRow] = field(default_factory=list)
    recipes: RecipeReport | None = None
    scope: str = ""
    one_model: bool = False
    certificate: Certificate | None = None
    unshown: dict[str, str] = field(default_factory=dict)
    steps: Steps | None = None

    @property
    def passed(self) -> bool:
        """Whether something was compared, all of it is within tolerance, and that proves something."""
        compared = any(self.one_model or math.prod(row.shape) for row in self.outputs)
        return (
            compared
            and not self.unproven
            and all(r.passed for r in self.outputs)
            and all(r.passed is not False for r in [*self.modules, *self.training, *self.nodes])
            and (self.nets is None or self.nets.passed)
            and (self.laws is None or not self.laws.differing)
            and (self.structure is None or self.structure.passed)
            and (self.recipes is None or self.recipes.passed)
        )

    @property
    def differs(self) -> bool:
        """Whether something compared is beyond tolerance or other; what is not proven need not be."""
        rows = [*self.outputs, *self.modules, *self.training, *self.nodes]
        return any(r.passed is False for r in rows) or not all(
            part is None or part.passed for part in (self.structure, self.recipes)
        )

    @property
    def verdict(self) -> str:
        """``equal``, ``different`` or ``unproven``: what the first line of the text says."""
        if self.passed:
            return "equal"
        nets = self.nets is not None and not self.nets.passed
        laws = self.laws is not None and bool(self.laws.differing)
        return "different" if self.differs or nets or laws else "unproven"

    def causes(self) -> list[str]:
        """Return the lines below the verdict: the first divergence, what else differs, what to write."""
        return tell_causes(self)

    def to_json(self) -> dict[str, object]:
        """Return the report as plain data that JSON can hold; NaN becomes None, an infinity "inf"."""
        said = {"passed": self.passed, "verdict": self.verdict, "summary": self.summary()}
        return {name: _plain(value) for name, value in {**said, **asdict(self)}.items()}

    def render(self, *, brief: bool = False) -> str:
        """Return the report as text: verdict, first divergence with its cause, differences, tables.

        Args:
            brief: a screenful: the worst rows of each table, without those that passed or only inherit.
        """
        return render(self, brief=brief)

    def _repr_html_(self) -> str:
        """Return the verdict, its causes and the tables folded, as notebooks show a report."""
        parts = [text_markup(self.summary(), "strong")]
        parts += [] if self.coverage is None else [text_markup(self.coverage.line(), "p")]
        causes = "\n".join(self.causes()).strip("\n")
        parts += [text_markup(causes, "pre")] if causes else []
        parts += [
            folded_markup(f"{title} ({len(rows)})", table_markup(head, rows))
            for title, head, rows in tables_of(self)
        ]
        parts += [text_markup(f"note: {note}", "p") for note in self.notes]
        return "".join(parts)

    def summary(self) -> str:
        """Return the verdict in one line."""
        failed = sum(not row.passed for row in self.outputs) + sum(
            row.passed is False for row in [*self.modules, *self.training, *self.nodes]
        )
        compared = [row for row in self.modules if row.passed is not None]
        what = f"{len(self.outputs)} output{'s' if len(self.outputs) != 1 else ''}"
        if self.steps is None:
            what += f" and {len(compared)} of {len(self.modules)} module calls"
        what += " compared"
        if self.training:
            trained = sum(row.passed is not None for row in self.training)
            what += f", {trained} of {len(self.training)} parameters and statistics trained one step"
        if self.nodes:
            what += f", {len(self.nodes)} outputs of the source's nodes"
        if self.passed:
            to = "equal to what was read" if self.proved_against == "graph" else "equal"
            to += f" {self.scope}" if self.scope else ""
            if self.certificate is not None and self.certificate.passed:
                how = self.certificate.describe()
                to += f", {how.replace(' as read', '') if self.proved_against == 'graph' else how}"
            telling = [row for row in self.outputs if not row.unproven] or self.outputs
            if not (self.unshown and telling is self.outputs):
                regular = [row for row in telling if UNDECIDED not in row.reason] or telling
                what += f", largest error {max(row.max_rel for row in regular):.2g} relative"
            alone = [f"`{name}` ({why.partition(', and ')[0]})" for name, why in self.unshown.items()]
            what += f"; no run shows {', '.join(alone)}" if alone else ""
            decided = dict.fromkeys(f"`{row.name}`" for row in telling if DECIDED in row.reason)
            what += f"; rounding alone decides elements of {', '.join(decided)}" if decided else ""
            return f"{to}: {what}"
        found = [] if self.recipes is None else [self.recipes.differences()]
        found += [] if self.steps is None else [self.steps.differences()]
        if failed:
            return f"DIFFERENT{' in ' + found[0] if any(found) else ''}: {what}, {failed} beyond tolerance"
        if self.nets is not None and not self.nets.passed:
            found.append(self.nets.differences())
        if self.structure is not None:
            found.append(self.structure.differences())
        if self.laws is not None and self.laws.differing:
            found.append(f"{self.laws.differing} initial distributions")
        if any(found):
            return f"DIFFERENT in {', '.join(filter(None, found))}: {what}, none beyond tolerance"
        if self.unproven:
            why = ", ".join(f"`{name}` is {reason}" for name, reason in self.unproven.items())
            return f"NOT PROVEN, {why}: {what}"
        return f"NOT PROVEN: {what}"


def _plain(value: object) -> object:
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else "inf" if value > 0 else "-inf"
    return value
