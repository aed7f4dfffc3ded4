"""`regraft show`: show a model's layers, or its graph as text or as a page."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .language import language, say
from .loading import MODEL_HELP, Loading, load, model_options
from .pages import html_option
from .printing import add_row, console, echo, echo_text, print_json, report_errors, table_of

if TYPE_CHECKING:
    from ..ir import Graph
    from ..ir.analysis.costs import Costs
    from ..ir.analysis.summary import LayerRow, Summary

_DEFAULT = "output,parameters,notes"


def _count(number: int) -> str:
    return f"{number:,}" if number else ""


_CELLS: dict[str, Callable[[LayerRow], str]] = {
    "input": lambda row: "" if row.input is None else str(row.input),
    "output": lambda row: "" if row.output is None else str(row.output),
    "kernel": lambda row: row.kernel,
    "parameters": lambda row: _count(row.parameters),
    "trainable": lambda row: row.trainable,
    "multiply-adds": lambda row: _count(row.multiply_adds),
    "MB": lambda row: f"{row.nbytes / 1e6:.2f}" if row.nbytes else "",
    "calls": lambda row: "" if row.calls is None else str(row.calls),
    "notes": lambda row: "; ".join(map(say, row.notes)),
}
"""Column after path and class -> its text."""

_NUMBERS = ("parameters", "multiply-adds", "MB", "calls")


def _columns(ctx: click.Context, param: click.Parameter, value: str) -> list[str]:
    """Return the columns that were asked for."""
    if value == "all":
        return list(_CELLS)
    names = [name.strip() for name in value.split(",") if name.strip()]
    unknown = [name for name in names if name not in _CELLS]
    if unknown:
        known = ", ".join(_CELLS)
        raise click.BadParameter(f"expected columns of {known}, or all, got `{unknown[0]}`", ctx, param)
    return names


@click.command(epilog=MODEL_HELP, short_help="Show MODEL's layers, or its graph.")
@click.argument("model")
@model_options
@click.option("--ir", is_flag=True, help="Print the graph in the IR's text form instead of the table.")
@click.option(
    "--dot", is_flag=True, help="Print the graph for Graphviz instead of the table: | dot -Tsvg > net.svg"
)
@click.option("--depth", type=click.IntRange(0), help="Show modules down to this depth only.")
@click.option(
    "--columns",
    metavar="NAME[,NAME]…",
    default=_DEFAULT,
    show_default=True,
    callback=_columns,
    help=f"Columns to show: {', '.join(_CELLS)}; `all` for every one.",
)
@html_option
@click.option("--json", "as_json", is_flag=True, help="The table as JSON on standard output.")
@click.pass_context
def show(
    ctx: click.Context,
    model: str,
    loading: Loading,
    ir: bool,
    dot: bool,
    depth: int | None,
    columns: list[str],
    html: Path | None,
    as_json: bool,
) -> None:
    """Show MODEL's layers: path, class, shapes, parameters (each counted once); mark shared and unused ones.

    Modules without any call share one row. Multiply-adds count the products that are summed (convolutions,
    matrices, recurrent layers), at the sizes of the given inputs.
    """
    from .. import api
    from ..api.pages import write_page
    from ..ir import render
    from ..ir.analysis.costs import count_costs
    from ..ir.analysis.summary import summarise
    from ..ir.text_form.dot import render_dot

    with report_errors(ctx):
        if ir and dot:
            raise click.UsageError("expected --ir or --dot, got both")
        if loading.inputs or api.is_data(model):
            graph = load(model, loading)
        else:
            graph = api.load_tree(
                model,
                params=loading.params,
                part=loading.part,
                arguments=loading.constructor(),
                trust=loading.trust,
            )
            echo("without --input the table has no shapes and no calls", err=True)
        if html is not None:
            write_page(html, graph, lang=language())
            echo(f"wrote {html}", err=True)
        if ir or dot:
            echo_text((render(graph) if ir else render_dot(graph)).rstrip("\n"))
            return
        costs = count_costs(graph)
        summary = summarise(graph, depth, fold=not as_json, costs=costs.by_module)
        unknown = [
            p.name
            for p in graph.parameters()
            if not p.is_buffer and (p.initializer is None or p.initializer.law == "unknown")
        ]
        if as_json:
            print_json(_document(summary, costs, unknown))
            return
        table = table_of("path", "class", *(f">{c}" if c in _NUMBERS else c for c in columns))
        for row in summary.rows:
            add_row(table, row.path or "(root)", row.class_name, *(_CELLS[c](row) for c in columns))
        console().print(table)
        _print_totals(summary, costs, graph)
        if unknown:
            shown = ", ".join(unknown[:3]) + (f" and {len(unknown) - 3} more" if len(unknown) > 3 else "")
            echo(f"initial distribution unknown: {shown}")
        for note in graph.origin.notes:
            echo(f"note: {note}")


def _document(summary: Summary, costs: Costs, unknown: list[str]) -> dict[str, object]:
    """Return the table as JSON has it."""
    return {
        "modules": [
            {
                "path": r.path,
                "class": r.class_name,
                "calls": r.calls,
                "input": None if r.input is None else str(r.input),
                "output": None if r.output is None else str(r.output),
                "kernel": r.kernel,
                "parameters": r.parameters,
                "trainable": r.trainable,
                "multiply_adds": r.multiply_adds,
                "bytes": r.nbytes,
                "buffers": r.buffers,
                "aliases": list(r.aliases),
                "notes": list(r.notes),
            }
            for r in summary.rows
        ],
        "trainable": summary.trainable,
        "used": summary.used,
        "buffers": summary.buffers,
        "bytes": summary.nbytes,
        "multiply_adds": costs.total,
        "sizes": costs.sizes,
        "not_counted": list(dict.fromkeys(costs.uncounted)),
        "unknown_initial_distributions": unknown,
    }


def _print_totals(summary: Summary, costs: Costs, graph: Graph) -> None:
    """Print the parameters, multiply-adds and megabytes of the whole model."""
    unused = summary.trainable - summary.used
    echo(
        f"{summary.trainable:,} trainable parameters, each counted once"
        + (f": {summary.used:,} used, {unused:,} never used" if unused else "")
        + (f"; {summary.buffers:,} elements of other state" if summary.buffers else "")
    )
    memory = f"{summary.nbytes / 1e6:,.2f} MB of parameters and state"
    if not graph.operators():
        echo(memory)
        return
    at = ", ".join(f"{name}={size}" for name, size in costs.sizes.items())
    left = ", ".join(dict.fromkeys(costs.uncounted))
    echo(
        f"{costs.total:,} multiply-adds"
        + (f" at {at}" if at else "")
        + (f", those of {left} not counted" if left else "")
        + f"; {memory}"
    )
