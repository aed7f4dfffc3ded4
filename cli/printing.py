"""What every command prints with: tables, findings, reports, JSON, progress, errors."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from ..api import Change, Report
    from ..ir import RegraftError


@contextmanager
def reported(ctx: click.Context) -> Iterator[None]:
    """Turn our errors into one message and exit code 2 (1 for a mismatch), with --json a document too."""
    from ..ir import MismatchError, RegraftError

    try:
        yield
    except RegraftError as error:
        if ctx.obj and ctx.obj.get("debug"):
            raise
        report = getattr(error, "report", None)
        if ctx.params.get("as_json"):
            print_json({"error": error_row(error), "verified": None if report is None else report.to_json()})
        elif report is not None:
            print_report(report)
        click.echo(f"{click.style('error', fg='red', bold=True)} {error}", err=True)
        ctx.exit(1 if isinstance(error, MismatchError) else 2)


@contextmanager
def doing(what: str) -> Iterator[None]:
    """A spinner on a terminal, silence in a pipe."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(what):
        yield


def console() -> Console:
    """Standard output; in a pipe wide enough that tables do not fold."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else 160, highlight=False)


def print_json(value: object) -> None:
    """One JSON document on standard output."""
    click.echo(json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False, default=str))


def change_rows(changes: list[Change]) -> list[dict[str, object]]:
    """Findings as JSON has them."""
    return [
        {"code": c.code, "severity": c.severity, "message": c.message, "place": c.place, "fixed": c.fixed}
        for c in changes
    ]


def error_row(error: RegraftError) -> dict[str, object]:
    """An error as JSON has it, with every operator that is missing."""
    missing = getattr(error, "missing", ())
    return {
        "code": error.code,
        "message": error.message,
        "place": error.place,
        "hint": error.hint,
        "operators": [asdict(each) for each in missing],
    }


_COLOURS = {"error": "red", "warning": "yellow", "note": "blue", "fixed": "green"}
_NOTES_SHOWN = 3


def print_changes(changes: list[Change], *, rewritten: bool = False) -> None:
    """One line a finding; of notes of one code only the first few.

    Args:
        changes: what the passes found or did.
        rewritten: whether the passes' result is what the user gets, so that faults are fixed ones.
    """
    notes: dict[str, int] = {}
    for change in changes:
        label = "fixed" if rewritten and change.fixed and change.severity != "note" else change.severity
        if label == "note":
            notes[change.code] = notes.get(change.code, 0) + 1
            if notes[change.code] > _NOTES_SHOWN:
                continue
        click.echo(f"{click.style(label, fg=_COLOURS[label], bold=True)} {change}")
    label = click.style("note", fg="blue", bold=True)
    for code, count in notes.items():
        if count > _NOTES_SHOWN:
            click.echo(f"{label} {code} and {count - _NOTES_SHOWN} more (--json lists all)")


def table_of(*columns: str) -> Table:
    """A table with boxes on a terminal and bare columns in a pipe; ``>`` marks a right-aligned one."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD if sys.stdout.isatty() else None, pad_edge=False)
    for column in columns:
        table.add_column(column.lstrip(">"), justify="right" if column[0] == ">" else "left", overflow="fold")
    return table


def print_report(report: Report, *, brief: bool = False) -> None:
    """What was compared; `brief`: without the rows that are equal."""
    click.echo(report.render(brief=brief).rstrip())
