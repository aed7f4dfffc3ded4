"""Prints tables, findings, reports, JSON, progress and errors, for every command."""

from __future__ import annotations

import json
import re
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, TextIO

import click

from .language import say, say_lines
from .own_output import foreign_output_diverted, own_output

if TYPE_CHECKING:
    from rich.console import Console
    from rich.status import Status
    from rich.table import Table

    from ..ir import RegraftError
    from ..passes.base import Change
    from ..verification import Report


@contextmanager
def report_errors(ctx: click.Context) -> Iterator[None]:
    """Turn our errors into one message and exit code 2 (1 for a mismatch), with --json a document too."""
    from ..ir import MismatchError, RegraftError, framework_errors_told, system_errors_told
    from ..process.state import preserve_process_state

    with foreign_output_diverted():
        try:
            # what a model sets when imported holds for all of it
            with preserve_process_state(), system_errors_told(), framework_errors_told():
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
            echo(error.for_command_line(), err=True, label="error")
            ctx.exit(1 if isinstance(error, MismatchError) else 2)


QUIET = "regraft.quiet"
"""Key of the context's `meta` under which --quiet stands."""


def is_quiet() -> bool:
    """Whether nothing but verdicts and errors is asked for."""
    ctx = click.get_current_context(silent=True)
    return ctx is not None and bool(ctx.meta.get(QUIET))


def print_verdict(text: object) -> None:
    """Print the line that answers the command, with --quiet too."""
    _echo(_printable(say_lines(str(text))), own_output())


_STYLE = re.compile(r"(\x1b\[[0-9;]*m)")


def echo(text: object, *, err: bool = False, label: str = "") -> None:
    """Print a message of a line or more in the user's language; --quiet drops it.

    Nothing in it steers the terminal but our own colours.

    Args:
        text: what to print.
        err: whether to standard error, with --quiet too.
        label: "error", "warning", "note" or "fixed", in front and in its colour.
    """
    if err or not is_quiet():
        front = f"{click.style(say(label), fg=_COLOURS[label], bold=True)} " if label else ""
        _echo(front + _printable(say_lines(str(text))), sys.stderr if err else own_output())


def echo_text(text: str) -> None:
    """Print what has no language: a graph, a patch, a script, names; --quiet drops it."""
    if not is_quiet():
        _echo(_printable(text), own_output())


def _printable(text: str) -> str:
    from ..ir.outside.display import printable

    parts = _STYLE.split(text)
    parts[::2] = map(printable, parts[::2])
    return "".join(parts)


def _echo(text: str, to: TextIO) -> None:
    click.echo(text, to)


@contextmanager
def doing(what: str) -> Iterator[None]:
    """Show a spinner on a terminal, nothing in a pipe."""
    if not sys.stderr.isatty() or is_quiet():
        yield
        return
    from rich.console import Console

    from ..ir.outside.display import shorten_words
    from ..process.progress import reporting

    shown = shorten_words(say(what))
    status = Console(stderr=True, markup=False, emoji=False).status(shown)
    with status, reporting(_Spinner(status, shown)):
        yield


class _Spinner:
    """Shows the phase of a call behind what is being done."""

    def __init__(self, status: Status, what: str) -> None:
        self.status, self.what, self.phases = status, what, list[str]()

    def began(self, phase: str) -> None:
        """Show a phase."""
        self.phases.append(phase)
        self._show()

    def ended(self, phase: str, seconds: float) -> None:  # noqa: ARG002 - of `Reporter`
        """Show the phase around it again."""
        self.phases.pop()
        self._show()

    def _show(self) -> None:
        self.status.update(f"{self.what}: {say(self.phases[-1])}" if self.phases else self.what)


def console() -> Console:
    """Return standard output; in a pipe wide enough that tables do not fold."""
    from rich.console import Console

    out = own_output()
    width = None if out.isatty() else 160
    ctx = click.get_current_context(silent=True)
    wanted = None if ctx is None else ctx.color
    return Console(
        file=out,
        width=width,
        highlight=False,
        markup=False,  # names are no markup
        emoji=False,
        no_color=True if wanted is False else None,
    )


def print_json(value: object) -> None:
    """Print one JSON document to standard output."""
    from ..ir.outside.display import printable

    text = json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False, default=str)
    if printable(text) != text:
        text = json.dumps(value, indent=1, allow_nan=False, default=str)
    click.echo(text, own_output())


def change_rows(changes: list[Change]) -> list[dict[str, object]]:
    """Return findings as JSON has them."""
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
    """Return an error as JSON has it, with every operator that is missing."""
    missing = getattr(error, "missing", ())
    return {
        "code": error.code,
        "message": error.message,
        "place": error.place,
        "hint": error.hint,
        "operators": [asdict(each) for each in missing],
    }


_COLOURS = {"error": "red", "warning": "yellow", "note": "blue", "fixed": "green"}
_SHOWN = 3
"""Notes and fixed findings of one code that are listed."""


def print_changes(changes: list[Change], *, rewritten: bool = False, verbose: bool = False) -> None:
    """Print a line for each finding and one for its fix; only a few notes and fixed findings of a code.

    Args:
        changes: what was found or done.
        verbose: whether to list every note, and what a finding counts.
        rewritten: whether the passes' result is what the user gets, so that faults are fixed ones.
    """
    folded: dict[tuple[str, str], int] = {}
    for change in changes:
        label = "fixed" if rewritten and change.fixed and change.severity != "note" else change.severity
        if label in ("note", "fixed"):
            folded[label, change.code] = folded.get((label, change.code), 0) + 1
            if folded[label, change.code] > _SHOWN and not verbose:
                continue
        at = f" - at {change.place}" if change.place else ""
        echo(f"{change.code} {change.message}{at}", label=label)
        if change.advice and not rewritten:
            echo(f"  write: {change.advice}")
        for member in change.members if verbose else ():
            echo_text(f"  {member}")
    for (label, code), count in folded.items():
        if count > _SHOWN and not verbose:
            echo(f"{code} and {count - _SHOWN} more (-v lists all)", label=label)


def print_table(table: Table) -> None:
    """Print a table; --quiet drops it."""
    if not is_quiet():
        console().print(table)


def table_of(*columns: str) -> Table:
    """Return a table with boxes on a terminal and bare columns in a pipe; ``>`` marks a right-aligned one."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD if own_output().isatty() else None, pad_edge=False)
    for column in columns:
        table.add_column(
            say(column.lstrip(">")), justify="right" if column[0] == ">" else "left", overflow="fold"
        )
    return table


def add_row(table: Table, *cells: str) -> None:
    """Add a row of texts that come from a model."""
    from ..ir.outside.display import printable

    table.add_row(*map(printable, cells))


def print_report(report: Report, *, verbose: bool = False, removed: str = "") -> None:
    """Print a report; `verbose`: all of it, not a screenful; `removed`: text in front of the verdict."""
    verdict, _, rest = report.render(brief=not verbose).rstrip().partition("\n")
    print_verdict(f"{removed}; the rest is {verdict}" if removed else verdict)
    if rest:
        echo(rest)
