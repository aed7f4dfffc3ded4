"""`regraft sweep`: check and rewrite the models of a suite, each in a process of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .common import long_names, option_of, value_of
from .printing import (
    add_row,
    echo,
    is_quiet,
    print_json,
    print_table,
    print_verdict,
    report_errors,
    table_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.progress import Progress

    from .sweeping import Row
    from .sweeping.comparing import Compared

_DECIDED = {"output", "to", "json", "force", "help", "html", "quiet", "color", "lang", "output-format"}
"""Options that a suite does not give: the sweep does."""

_SHOWN = 30
"""Rows that are printed; the tables have all."""


@click.command(short_help="Run a SUITE of models; name what got worse.")
@click.argument("suite", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="Directory of rows.jsonl, table.md and table.html.",
)
@click.option(
    "--against",
    type=click.Path(path_type=Path),
    metavar="ROWS",
    help="The rows.jsonl of an earlier sweep: regressions come first, and only they give exit code 1.",
)
@click.option(
    "-j",
    "--jobs",
    type=click.IntRange(1),
    help="Number of cases at a time on this machine; by default its number of cores.",
)
@click.option(
    "--scheduler",
    default="",
    metavar="ADDRESS",
    help="A Dask scheduler such as tcp://host:8786, whose workers run the cases instead; they must reach "
    "SUITE's folder and the store.",
)
@click.option(
    "--store",
    default="",
    metavar="URL",
    help="Store of rows and outputs, so that unchanged cases do not run again: a folder, or "
    "s3://bucket/path and the like; by default OUT/store.",
)
@click.option("--keep", is_flag=True, help="Also keep the outputs in the store.")
@click.option("--fresh", is_flag=True, help="Also run the unchanged cases.")
@click.option(
    "--only", default="", metavar="REGEX", help="Run only the cases whose `name -> target` contains this."
)
@click.option(
    "--sample",
    type=click.IntRange(1),
    metavar="N",
    help="Run only N models of each group, spread evenly; of all models if there are no groups.",
)
@click.option(
    "--history",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="File of earlier sweeps for the trends in the tables; this sweep is added; by default "
    "OUT/history.jsonl.",
)
@click.option(
    "--label",
    default="",
    help="Label of this sweep in the trends, such as a version or commit; by default regraft's version.",
)
@click.option("--json", "as_json", is_flag=True, help="The rows as JSON on standard output.")
@click.pass_context
def sweep(
    ctx: click.Context,
    suite: Path,
    output: Path,
    against: Path | None,
    jobs: int | None,
    scheduler: str,
    store: str,
    keep: bool,
    fresh: bool,
    only: str,
    sample: int | None,
    history: Path | None,
    label: str,
    as_json: bool,
) -> None:
    """Check the models of SUITE and rewrite them to its targets, each in its own process with limits.

    SUITE is a TOML file of tables [[models]]: `model` as on the command line, or a list, or with a * in its
    file or name; `to` lists targets; `check` turns checks on, `seconds` and `memory` (16 GiB) are limits;
    `group` names a row of the totals; `tolerance` bounds the relative difference of outputs, besides
    rewrite's own bounds; other keys are options of check and rewrite. Keys at the top apply to all tables. A
    table may name functions instead: `cases` gives cases and `judge` judges them, `batch` of them per
    process. An interrupted sweep resumes when it is run again. RUNS THE CODE of models named as on the
    command line, and of judges.

    Exit code 1 if a case is not equal or clean; with --against, only if a case is worse than before.
    """
    with report_errors(ctx):
        from .sweeping import added, read_history, read_suite, sweep, write_tables
        from .sweeping.case import NOT_JUDGED
        from .sweeping.choosing import chosen
        from .sweeping.comparing import compare_rows, summary
        from .sweeping.runs import Sweep
        from .sweeping.store import read_rows
        from .sweeping.tables import write_text

        before = [] if against is None else read_rows(against)
        written = history or output / "history.jsonl"
        past = read_history(written)
        every = read_suite(suite, _targets(), _spell)
        cases = chosen(every, only, sample or 0)
        left_out = {(case.name, case.step) for case in every} - {(case.name, case.step) for case in cases}
        before = [row for row in before if (row.name, row.step) not in left_out]
        _make_folder(output)
        how = Sweep(store or str((output / "store").absolute()), jobs or 0, scheduler, keep=keep, fresh=fresh)
        order = {(case.name, case.step): number for number, case in enumerate(cases)}
        rows = sorted(_told(sweep(cases, how), len(cases)), key=lambda row: order[row.name, row.step])
        if not left_out:  # a part is no trend of the whole
            past = added(past, rows, label or _version())
            write_text(written, "".join(each.to_line() for each in past))
        write_tables(output, rows, before, title=suite.stem, history=past)
        compared = compare_rows(rows, before)
        if as_json:
            print_json([{**each.row.to_json(), "change": each.change} for each in compared])
        else:
            print_verdict(summary(rows, compared))
            _print_tables(rows, compared)
            for name in ("rows.jsonl", "table.md", "table.html"):
                echo(f"wrote {output / name}")
        unkept = [row for row in rows if row.unkept]
        if unkept:
            echo(
                f"{len(unkept)} rows are not in the store and will be run again: {unkept[0].unkept}", err=True
            )
        worse = any(each.change in ("regression", "gone") for each in compared)
        good = all(row.good or row.verdict == NOT_JUDGED for row in rows)
        ctx.exit(int(worse if against is not None else not good))


def _make_folder(output: Path) -> None:
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        from ..ir import UsageError

        raise UsageError("E002", f"cannot write: {error.strerror}", place=str(output)) from error


def _version() -> str:
    from importlib.metadata import version

    return f"regraft {version('regraft')}"


def _print_tables(rows: Sequence[Row], compared: Sequence[Compared]) -> None:
    """Print the totals where there are groups, and the cases that are not as they should be."""
    from .sweeping.case import NOT_JUDGED
    from .sweeping.comparing import HEADINGS, cells_of
    from .sweeping.totals import totals

    if any(row.group for row in rows):
        headings, lines = totals(rows)
        table = table_of(*headings)
        for line in lines:
            add_row(table, *line)
        print_table(table)
    wrong = {row.verdict for row in rows if not row.good} - {NOT_JUDGED}
    shown = [each for each in compared if each.change or each.row.verdict in wrong]
    if shown:
        table = table_of(*HEADINGS[:4], *(f">{name}" for name in HEADINGS[4:7]), HEADINGS[7])
        for each in shown[:_SHOWN]:
            add_row(table, *cells_of(each))
        print_table(table)
    if len(shown) > _SHOWN:
        echo(f"and {len(shown) - _SHOWN} more")


def _targets() -> list[str]:
    from ..api import targets

    return list(targets.target_names())


def _spell(step: str, key: str, value: object) -> Sequence[str]:
    """Return the arguments that say an option of a suite; none where only another command or target takes it.

    Raises:
        LookupError: with the names of all options, for a key that is none.
        TypeError: with what was expected, for a value of another kind.
    """
    from ..api import targets
    from .check import check
    from .rewrite import rewrite

    commands = {"check": check, "rewrite": rewrite}
    known = {name for each in commands.values() for name in long_names(each)}.difference(_DECIDED)
    if key not in known:
        raise LookupError(*sorted(known))
    option = option_of(commands["check" if step == "check" else "rewrite"], key)
    if option is None or (step != "check" and not targets.target_takes(step, str(option.name))):
        return []
    if isinstance(value, dict):
        value = [f"{name}={_plain(each)}" for name, each in value.items()]
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        value = str(value)
    said = value_of(option, key, value)
    if option.is_flag:
        negated = option.secondary_opts[0] if option.secondary_opts else None
        return [option.opts[0]] if said else [negated] if negated else []
    return [f"--{key}={each}" for each in (said if isinstance(said, list) else [said])]


def _plain(value: object) -> str:
    """Return a value of a table as --arg and --input take it."""
    return value if isinstance(value, str) else json.dumps(value)


def _told(rows: Iterator[Row], cases: int) -> list[Row]:
    """Return the rows, each said as it comes: a bar on a terminal, lines in a pipe."""
    import sys

    found: list[Row] = []
    if sys.stderr.isatty() and not is_quiet():
        with _bar() as bar:
            task = bar.add_task("", total=cases)
            for row in rows:
                found.append(row)
                if not row.good:
                    bar.console.print(_line(row), markup=False, highlight=False)
                bar.update(task, advance=1, description=_line(row)[:60])
        return found
    for row in rows:
        found.append(row)
        if not is_quiet():
            echo(f"[{len(found)}/{cases}] {_line(row)}", err=True)
    return found


def _bar() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}", markup=False),
    )
    return Progress(*columns, console=Console(stderr=True), transient=True)


def _line(row: Row) -> str:
    from ..ir.outside.display import printable

    took = "from the store" if row.cached else f"{row.seconds:.1f} s"
    step = "check" if row.step == "check" else f"-> {row.step}"
    return printable(f"{row.verdict}: {row.name} {step} ({took})")
