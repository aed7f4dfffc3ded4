"""Writes a report as text: verdict, first divergence with its cause, differences, tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

from .braces import braced

if TYPE_CHECKING:
    from .report import ModuleRow, OutputRow, Report, TrainingRow

_ROWS = 8
"""Rows of a table on one screen."""

_NOTES = 4
"""Notes on one screen."""

_TYPES = "expected element type"
"""Beginning of the reason for an output of another element type."""

Row = TypeVar("Row")


def name_call(call: str | None) -> str:
    """Return a module call as it is printed: the root has no path; empty for None."""
    return f"(root){call}" if call is not None and call.startswith("#") else call or ""


def render(report: Report, *, brief: bool) -> str:
    """Return the report as text.

    Args:
        report: what was found.
        brief: a screenful: the worst rows of each table, without those that passed or only inherit.
    """
    covered = [] if report.coverage is None else [report.coverage.line()]
    lines = [report.summary(), *(covered if report.passed else []), *tell_causes(report)]
    lines += ["", *covered] if covered and not report.passed else []
    if not brief:
        lines += [f"source: {report.source}", f"target: {report.target}", f"tolerance: {report.yardstick}"]
        lines += [] if report.certificate is None else [f"certificate: {report.certificate}"]
    for table in (_outputs, _modules, _nodes, _training):
        lines += table(report, brief=brief)
    if report.nets is not None:
        lines += report.nets.pair_lines()
    shown = report.notes[:_NOTES] if brief else report.notes
    lines += [f"note: {note}" for note in shown]
    more = len(report.notes) - len(shown)
    if more > 0:
        lines.append(f"and {more} more note{'s' if more > 1 else ''} (-v lists all)")
    return "\n".join(lines) + "\n"


def tell_causes(report: Report) -> list[str]:
    """Return where a target goes wrong first, then what else differs, each with what to write."""
    recipes = report.recipes
    lines = [*_divergence(report), *([] if recipes is None else recipes.lines()), *_differences(report)]
    return [*lines, *([] if recipes is None else recipes.remark_lines())]


def _divergence(report: Report) -> list[str]:
    """Return where the target goes wrong first, and what to write there."""
    lines: list[str] = [] if report.steps is None else [*report.steps.causes]
    typed = [row for row in report.outputs if not row.passed and row.reason.startswith(_TYPES)]
    if typed:
        many = f"{len(typed)} of {len(report.outputs)} outputs"
        lines.append(f"{many}: {typed[0].reason}: the target computes in another precision, or casts")
    wrong = next((row for row in report.nodes if row.passed is False), None)
    if wrong is not None:
        lines.append(f"the graph that was read differs from the source first at `{wrong.call}`")
    if report.first_divergence is not None:
        known = [report.first_divergence]
        if report.nets is not None:
            known = report.nets.blamed(report.first_divergence)
        lines += [f"first divergence: {name_call(known[0])}", *known[1:]]
        if any(row.call == report.first_divergence and row.isolated_passed for row in report.modules):
            lines.append(f"  `{report.first_divergence}` is right alone: its inputs differ")
    frozen = _frozen(report)
    lines += frozen
    told = all(row.frozen for row in report.training if row.passed is False)
    if report.training_divergence is not None and not (frozen and told):
        at = report.training_divergence.partition(":")[0]
        why, *writes = (report.nets.blames(at) if report.nets is not None else []) or [""]
        lines.append(f"training diverges at {report.training_divergence}" + (f": {why}" if why else ""))
        lines += [line for line in writes if line not in lines]
    return lines


def _frozen(report: Report) -> list[str]:
    """Return what one side alone trains, and what to write."""
    lines: list[str] = []
    known = [] if report.nets is None or report.training else report.nets.frozen
    for side, other in (("target", "source"), ("source", "target")):
        rows = [row for row in report.training if row.frozen == side]
        rows = rows or [row for row in known if row.in_source is (side == "source")]
        if rows:
            names = braced([row.target for row in rows])
            held = ", ".join(f"`{name}`" for name in names[:_NOTES])
            held += f" and {len(names) - _NOTES} more" if len(names) > _NOTES else ""
            lines.append(f"frozen in the {side}, trained in the {other}: {held}")
            text = f"write: requires_grad = {side == 'target'} for {'it' if len(rows) == 1 else 'them'}"
            places = "" if report.nets is None else report.nets.places_of_frozen({r.target for r in rows})
            lines.append(f"  {text}{places}")
            if known:
                lines.append("  it acts in training only, which --train compares")
    return lines


def _differences(report: Report) -> list[str]:
    """Return the differences besides numbers."""
    lines: list[str] = []
    if report.nets is not None:
        agree = all(row.passed for row in report.outputs)
        trained = all(row.passed is not False for row in report.training)
        lines += report.nets.differing_lines(agree=agree, trained=trained)
    if report.structure is not None:
        lines += report.structure.lines()
    if report.laws is not None:
        lines += report.laws.lines()
    return lines


_OUTPUTS = ["output", "inputs", "shape", "max abs", "max rel", "tolerance", ""]
_MODULES = ["module", "class", "max abs", "max rel", "alone", "tolerance", ""]
_NODES = ["node of the source", "operator", *_MODULES[2:]]
_TRAINING = ["parameter", "gradient abs", "rel", "after step", "statistic", "tolerance", ""]


def tables_of(report: Report) -> list[tuple[str, list[str], list[list[str]]]]:
    """Return title, head and cells of every table that has rows, with all of them."""
    tables = [
        ("outputs", _OUTPUTS, [_output_cells(row) for row in report.outputs]),
        ("module calls", _MODULES, [_module_cells(row) for row in report.modules]),
        ("nodes of the source", _NODES, [_module_cells(row) for row in report.nodes]),
        ("training", _TRAINING, [_training_cells(row) for row in report.training]),
    ]
    return [table for table in tables if table[2]]


def _outputs(report: Report, *, brief: bool) -> list[str]:
    rows: Sequence[OutputRow] = report.outputs
    if brief:
        rows = [row for row in rows if not row.passed or row.name in report.unproven]
    return _render_table(
        _OUTPUTS, rows, _output_cells, lambda row: _times(row.max_abs, row.tolerance), brief=brief
    )


def _modules(report: Report, *, brief: bool) -> list[str]:
    """Return the table of module calls; brief: those wrong by themselves, or the first if none is."""
    rows: Sequence[ModuleRow] = report.modules
    folded = 0
    if brief:
        failed = [row for row in rows if row.passed is False]
        wrong = [row for row in failed if row.isolated_passed is False or row.call == report.first_divergence]
        rows = wrong or failed
        folded = len(failed) - len(rows)
    lines = _render_table(_MODULES, rows, _module_cells, _times_of_module, brief=brief)
    if folded:
        lines.append(
            f"{_many(folded, 'module call')} inherit{'s' if folded == 1 else ''} that (-v lists all)"
        )
    return lines


def _nodes(report: Report, *, brief: bool) -> list[str]:
    rows = [row for row in report.nodes if row.passed is False]
    return _render_table(_NODES, rows, _module_cells, None, brief=brief)


def _training(report: Report, *, brief: bool) -> list[str]:
    """Return the table of gradients and statistics; brief: empty where other outputs explain them."""
    rows: Sequence[TrainingRow] = report.training
    if brief:
        rows = [row for row in rows if row.passed is False]
        if rows and any(not row.passed for row in report.outputs):
            return [
                "",
                f"{_many(len(rows), 'parameter or statistic')} also trained differently (-v lists all)",
            ]
    return _render_table(_TRAINING, rows, _training_cells, _times_of_training, brief=brief)


def _render_table(
    head: list[str],
    rows: Sequence[Row],
    cells: Callable[[Row], list[str]],
    worse: Callable[[Row], float] | None,
    *,
    brief: bool,
) -> list[str]:
    """Return a table after an empty line; brief: its worst rows."""
    if not rows:
        return []
    kept = sorted(rows, key=worse, reverse=True) if brief and worse is not None else list(rows)
    kept = kept[:_ROWS] if brief else kept
    lines = ["", *_table(head, [cells(row) for row in kept])]
    return [*lines, f"and {len(rows) - len(kept)} more (-v lists all)"] if len(kept) < len(rows) else lines


def _times(error: float | None, tolerance: float | None) -> float:
    """Return how many tolerances an error is; NaN and infinities sort first."""
    if error is None:
        return 0.0
    if math.isnan(error) or not tolerance:
        return math.inf if error or math.isnan(error) else 0.0
    return error / tolerance


def _times_of_module(row: ModuleRow) -> float:
    if row.isolated_passed is False:
        return _times(row.isolated_max_abs, row.isolated_tolerance or row.tolerance)
    return _times(row.max_abs, row.tolerance)


def _times_of_training(row: TrainingRow) -> float:
    error = row.gradient_max_abs if row.statistic_max_abs is None else row.statistic_max_abs
    return math.inf if row.passed is False and error is None else _times(error, row.tolerance)


def _many(count: int, what: str) -> str:
    if count == 1:
        return f"1 {what}"
    return f"{count} parameters and statistics" if what.startswith("parameter") else f"{count} {what}s"


def _output_cells(row: OutputRow) -> list[str]:
    verdict = f"FAILED: {row.reason}" if not row.passed else row.reason or "passed"
    shape = "x".join(map(str, row.shape)) or "scalar"
    return [row.name, row.case, shape, *map(_number, (row.max_abs, row.max_rel, row.tolerance)), verdict]


def _module_cells(row: ModuleRow) -> list[str]:
    numbers = (row.max_abs, row.max_rel, row.isolated_max_abs, row.tolerance)
    return [row.call, row.class_name, *map(_number, numbers), row.verdict]


def _training_cells(row: TrainingRow) -> list[str]:
    numbers = (
        row.gradient_max_abs,
        row.gradient_max_rel,
        row.step_max_abs,
        row.statistic_max_abs,
        row.tolerance,
    )
    verdict = f"FAILED: {row.reason}" if row.passed is False else row.reason or "passed"
    return [row.parameter, *map(_number, numbers), verdict]


def _number(value: float | None) -> str:
    return "-" if value is None or math.isnan(value) else f"{value:.2e}" if value else "0"


def _table(head: list[str], rows: Iterable[list[str]]) -> list[str]:
    rows = list(rows)
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head) - 1)]
    return [
        "  ".join([*(c.ljust(w) for c, w in zip(row, widths, strict=False)), row[-1]]).rstrip()
        for row in [head, *rows]
    ]
