"""`regraft show`: show a model's layers, or its graph as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from .loading import MODEL_HELP, Loading, load, model_options
from .printing import add_row, console, echo, print_json, report_errors, table_of

if TYPE_CHECKING:
    pass


@click.command(epilog=MODEL_HELP, short_help="Show MODEL's layers, or its graph.")
@click.argument("model")
@model_options
@click.option("--ir", is_flag=True, help="Print the graph in the IR's text form instead.")
@click.option("--depth", type=click.IntRange(0), help="Show modules down to this depth only.")
@click.option("--json", "as_json", is_flag=True, help="The table as JSON on standard output.")
@click.pass_context
def show(
    ctx: click.Context,
    model: str,
    loading: Loading,
    ir: bool,
    depth: int | None,
    as_json: bool,
) -> None:
    """Show MODEL's layers: path, class, output shape, parameters counted once, sharing and unused marked."""
    from .. import api
    from ..ir import render
    from ..ir.analysis.summary import summarise

    with report_errors(ctx):
        if loading.inputs or api.is_data(model):
            graph = load(model, loading)
        else:
            graph = api.load_tree(
                model, params=loading.params, arguments=loading.constructor(), trust=loading.trust
            )
            echo("without --input the table has no shapes and no calls", err=True)
        if ir:
            echo(render(graph).rstrip("\n"))
            return
        summary = summarise(graph, depth)
        rows = summary.rows
        unknown = [
            p.name
            for p in graph.parameters()
            if not p.is_buffer and (p.initializer is None or p.initializer.law == "unknown")
        ]
        if as_json:
            print_json(
                {
                    "modules": [
                        {
                            "path": r.path,
                            "class": r.class_name,
                            "calls": r.calls,
                            "output": None if r.output is None else str(r.output),
                            "parameters": r.parameters,
                            "buffers": r.buffers,
                            "aliases": list(r.aliases),
                            "notes": list(r.notes),
                        }
                        for r in rows
                    ],
                    "trainable": summary.trainable,
                    "used": summary.used,
                    "buffers": summary.buffers,
                    "unknown_initial_distributions": unknown,
                }
            )
            return
        table = table_of("path", "class", "output", ">parameters", "notes")
        for row in rows:
            add_row(
                table,
                row.path or "(root)",
                row.class_name,
                "" if row.output is None else str(row.output),
                f"{row.parameters:,}" if row.parameters else "",
                "; ".join(row.notes),
            )
        console().print(table)
        unused = summary.trainable - summary.used
        echo(
            f"{summary.trainable:,} trainable parameters, each counted once"
            + (f": {summary.used:,} used, {unused:,} never used" if unused else "")
            + (f"; {summary.buffers:,} elements of other state" if summary.buffers else "")
        )
        if unknown:
            shown = ", ".join(unknown[:3]) + (f" and {len(unknown) - 3} more" if len(unknown) > 3 else "")
            echo(f"initial distribution unknown: {shown}")
        for note in graph.origin.notes:
            echo(f"note: {note}")
