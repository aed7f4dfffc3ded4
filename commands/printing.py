"""What every command prints with: tables, findings, reports, JSON, progress, errors."""

from __future__ import annotations

import json
import re
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from .own_output import foreign_output_diverted, own_output

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from ..api import Change, Report
    from ..ir import RegraftError


@contextmanager
def report_errors(ctx: click.Context) -> Iterator[None]:
    """Turn our errors into one message and exit code 2 (1 for a mismatch), with --json a document too."""
    from ..ir import MismatchError, RegraftError, system_errors_told
    from ..process_state import as_it_was

    with foreign_output_diverted():
        try:
            with as_it_was(), system_errors_told():  # what a model sets when imported holds for all of it
                yield
        except RegraftError as error:
            if ctx.obj and ctx.obj.get("debug"):
                traceback.print_exc()
            report = getattr(error, "report", None)
            if ctx.params.get("as_json"):
                verified = None if report is None else report.to_json()
                print_json({"error": error_row(error), "verified": verified})
            elif report is not None:
                print_report(report, verbose=bool(ctx.params.get("verbose")))
            echo(f"{click.style('error', fg='red', bold=True)} {error}", err=True)
            ctx.exit(1 if isinstance(error, MismatchError) else 2)


_STYLE = re.compile(r"(\x1b\[[0-9;]*m)")


def echo(text: object, *, err: bool = False) -> None:
    """Print a line or more in which nothing but our own colours steers the terminal."""
    from ..ir.outside.display import printable

    parts = _STYLE.split(str(text))
    parts[::2] = map(printable, parts[::2])
    click.echo("".join(parts), sys.stderr if err else own_output())


@contextmanager
def doing(what: str) -> Iterator[None]:
    """A spinner on a terminal, silence in a pipe."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    from ..ir.outside.display import shorten_words

    with Console(stderr=True, markup=False, emoji=False).status(shorten_words(what)):
        yield


def console() -> Console:
    """Standard output; in a pipe wide enough that tables do not fold."""
    from rich.console import Console

    out = own_output()
    width = None if out.isatty() else 160
    return Console(file=out, width=width, highlight=False, markup=False, emoji=False)  # names are no markup


def print_json(value: object) -> None:
    """One JSON document on standard output."""
    from ..ir.outside.display import printable

    text = json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False, default=str)
    if printable(text) != text:
        text = json.dumps(value, indent=1, allow_nan=False, default=str)
    click.echo(text, own_output())


def change_rows(changes: list[Change]) -> list[dict[str, object]]:
    """Findings as JSON has them."""
    return [
        {
            "code": c.code,
            "severity": c.severity,
            "message": c.message,
            "place": c.place,
            "fixed": c.fixed,
            "members": list(c.members),
            "advice": c.advice,
        }
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


def print_changes(changes: list[Change], *, rewritten: bool = False, verbose: bool = False) -> None:
    """One line a finding and one with what to write; of notes of one code only the first few.

    Args:
        changes: what was found or done.
        verbose: whether to list every note, and what a finding counts.
        rewritten: whether the passes' result is what the user gets, so that faults are fixed ones.
    """
    notes: dict[str, int] = {}
    for change in changes:
        label = "fixed" if rewritten and change.fixed and change.severity != "note" else change.severity
        if label == "note":
            notes[change.code] = notes.get(change.code, 0) + 1
            if notes[change.code] > _NOTES_SHOWN and not verbose:
                continue
        echo(f"{click.style(label, fg=_COLOURS[label], bold=True)} {change}")
        if change.advice and not rewritten:
            echo(f"  write: {change.advice}")
        for member in change.members if verbose else ():
            echo(f"  {member}")
    label = click.style("note", fg="blue", bold=True)
    for code, count in notes.items():
        if count > _NOTES_SHOWN and not verbose:
            echo(f"{label} {code} and {count - _NOTES_SHOWN} more (--json lists all)")


def table_of(*columns: str) -> Table:
    """A table with boxes on a terminal and bare columns in a pipe; ``>`` marks a right-aligned one."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD if own_output().isatty() else None, pad_edge=False)
    for column in columns:
        table.add_column(column.lstrip(">"), justify="right" if column[0] == ">" else "left", overflow="fold")
    return table


def add_row(table: Table, *cells: str) -> None:
    """Add a row of texts that come from a model."""
    from ..ir.outside.display import printable

    table.add_row(*map(printable, cells))


def print_report(report: Report, *, verbose: bool = False, removed: str = "") -> None:
    """What was compared; `verbose`: all of it, not a screenful; `removed`: in front of the verdict."""
    text = report.render(brief=not verbose).rstrip()
    echo(f"{removed}; the rest is {text}" if removed else text)
