"""The input pipelines of two training scripts, compared where both state theirs."""

from __future__ import annotations

from pathlib import Path

from ..pipelines import Finding, compare_pipelines
from .report import RecipeRow

SAMPLES = 64
"""Samples of both pipelines that are compared, as `compare-data` does without a number."""


def compare_recipe_data(source: str, target: str) -> tuple[list[RecipeRow], list[str]]:
    """Return what the pipelines of two scripts do differently, and notes on the comparison.

    Args:
        source: the source's, ``FILE.py:FUNCTION``; empty where its recipe states none.
        target: the target's, likewise.
    """
    if not source and not target:
        return [], []
    if not source or not target:
        side = "target" if target else "source"
        return [], [f"the data were not compared: only the recipe of the {side} states its `data`"]
    report = compare_pipelines(source, target, SAMPLES)
    rows = [_row(finding, target) for finding in report.findings]
    notes = [
        f"data of the {note.replace('first', 'source').replace('second', 'target')}" for note in report.notes
    ]
    return rows, [f"data: {report.samples} samples in {len(report.fields)} fields compared", *notes]


def _row(finding: Finding, target: str) -> RecipeRow:
    file = Path(target.rpartition(":")[0]).name
    place = f"{file}:{finding.places[1]}" if finding.places[1] else ""
    return RecipeRow(
        f"data, {finding.stage}", "", finding.message, why=finding.effect, advice=finding.advice, place=place
    )
