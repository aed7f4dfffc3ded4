"""`regraft compare-data`: compare two input pipelines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from .language import language, say
from .pages import html_option
from .printing import (
    add_row,
    doing,
    echo,
    echo_text,
    print_json,
    print_table,
    print_verdict,
    report_errors,
    table_of,
)

if TYPE_CHECKING:
    from ..verification.pipelines import DataReport


@click.command("compare-data", short_help="Compare two input pipelines, transform by transform.")
@click.argument("first")
@click.argument("second")
@click.option(
    "--samples", type=click.IntRange(1, 100_000), default=64, show_default=True, help="Samples to compare."
)
@click.option("--source", metavar="MODEL", help="The first's model: compare outputs, too; with --target.")
@click.option("--target", metavar="MODEL", help="The second's model.")
@html_option
@click.option("--json", "as_json", is_flag=True, help="The report as JSON on standard output.")
@click.pass_context
def compare_data(
    ctx: click.Context,
    first: str,
    second: str,
    samples: int,
    source: str | None,
    target: str | None,
    html: Path | None,
    as_json: bool,
) -> None:
    """Compare two input pipelines: FIRST and its port SECOND, each a FILE.py:FUNCTION that takes nothing.

    THE FILES ARE RUN, each in a process of its own. A function gives a DataLoader or dataset of PyTorch, a
    dataset of MindSpore, or any iterable of batches. The comparison covers counts, order, names and types of
    fields and values; transforms of torchvision and of MindSpore are compared one by one on the same samples.
    Shuffling is off meanwhile; random transforms are compared by their settings.

    Exit code 1 on any difference.
    """
    from ..api.pipelines import compare_data as compare

    with report_errors(ctx):
        if (source is None) != (target is None):
            raise click.UsageError("expected two models or none, got one")
        models = () if source is None else (source, target)
        with doing(f"comparing {first} and {second}"):
            report = compare(first, second, samples=samples, models=models)
        if html is not None:
            from ..api.pages.pipelines import write_pipelines

            write_pipelines(html, report, lang=language())
            echo(f"wrote {html}", err=True)
        if as_json:
            print_json(report.to_json())
        else:
            _print(report)
        ctx.exit(0 if report.equal else 1)


def _print(report: DataReport) -> None:
    from ..verification.pipelines.result import told

    print_verdict(report.verdict_in(say))
    for at, finding in enumerate(report.findings):
        if at:
            echo_text(told(finding.message, say))
        files = (reference.rpartition(":")[0] for reference in report.references)
        lines = [f"{file}:{line}" for file, line in zip(files, finding.places, strict=True) if line]
        if lines:
            echo_text(f"  {' '.join(lines)}")
        if finding.advice:
            echo(f"  write: {finding.advice}")
        if finding.effect:
            echo(f"  {finding.effect}")
    table = table_of("field", "shape", "dtype", ">least", ">largest", ">mean", ">apart")
    for row in report.fields:
        sides = [("-",) * 3 if not r else tuple(f"{v:.3g}" for v in r[:3]) for r in row.ranges]
        add_row(
            table,
            _arrow(*row.names),
            _arrow(*("-" if s is None else str(list(s)) for s in row.shapes)),
            _arrow(*row.dtypes),
            *(_arrow(a, b) for a, b in zip(*sides, strict=True)),
            "-" if row.apart is None else f"{row.apart:.2g}",
        )
    print_table(table)
    for note in report.notes:
        echo(f"note: {note}")


def _arrow(before: str, after: str) -> str:
    return before if before == after else f"{before} -> {after}"
