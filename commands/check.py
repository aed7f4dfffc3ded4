"""`regraft check`: say what is wrong with a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from .loading import MODEL_HELP, Loading, model_options
from .printing import change_rows, doing, echo, print_changes, print_json, reported

if TYPE_CHECKING:
    pass


@click.command(epilog=MODEL_HELP)
@click.argument("model")
@model_options
@click.option("--json", "as_json", is_flag=True, help="Findings as JSON on standard output.")
@click.pass_context
def check(
    ctx: click.Context,
    model: str,
    loading: Loading,
    as_json: bool,
) -> None:
    """Say what is wrong with MODEL (exit code 1 when something is).

    Without --input only the static rules run, and those skipped are listed.
    """
    from .. import api

    with reported(ctx):
        with doing(f"checking {model}"):
            findings = api.check(model, loading.given(), **loading.options())
        if as_json:
            print_json(
                {
                    "clean": findings.clean,
                    "findings": change_rows(findings.findings),
                    "skipped": findings.skipped,
                    "notes": findings.notes,
                }
            )
        else:
            print_changes(findings.findings)
            for name, why in findings.skipped.items():
                echo(f"skipped {name}: {why}")
            for note in findings.notes:
                echo(f"note: {note}")
            worst = sum(f.severity != "note" for f in findings)
            echo(f"{worst} finding{'s' if worst != 1 else ''}" if worst else "clean")
        ctx.exit(0 if findings.clean else 1)
