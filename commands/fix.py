"""`regraft fix`: edit the user's own file, where a finding has an edit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from .completion import ModelName
from .loading import MODEL_HELP, Loading, model_options
from .printing import (
    change_rows,
    doing,
    echo,
    echo_text,
    print_changes,
    print_json,
    print_verdict,
    report_errors,
)

if TYPE_CHECKING:
    from ..api.fixes import Fixed


@click.command(epilog=MODEL_HELP, short_help="Make the smallest edits in MODEL's own file.")
@click.argument("model", type=ModelName())
@click.option("--diff", "only_diff", is_flag=True, help="Show the edit and write nothing.")
@click.option("--like", metavar="REFERENCE", help="A model whose settings and outputs MODEL must match.")
@click.option(
    "--for",
    "release",
    type=click.Choice(["installed", "2.9", "2.10", "2.11"]),
    help="Also renew what this release of MindSpore removes; MODEL may be a script, which is not run.",
)
@model_options
@click.option("--json", "as_json", is_flag=True, help="Write a JSON report to standard output.")
@click.pass_context
def fix(
    ctx: click.Context,
    model: str,
    only_diff: bool,
    like: str | None,
    release: str | None,
    loading: Loading,
    as_json: bool,
) -> None:
    """Make the smallest edit in MODEL's own file that resolves `check`'s findings (exit code 1: some remain).

    With --like, which needs --input, the edit also resolves the differences that `verify` finds between
    REFERENCE and MODEL: it writes padding, biases, epsilon, momentum, ratios, GELU and initial distributions
    where layers are constructed, freezes and ties the parameters that REFERENCE freezes and ties, and writes
    calls, stopped gradients and padded rows in methods. The report lists the findings that no edit resolves.

    THE FILE IS RUN, before and after. regraft replaces it, and keeps the old text beside it as FILE.py.orig,
    only if the edited file has unique names and, with --input, the same outputs as before (or outputs closer
    to REFERENCE's).
    """
    from .. import api

    with report_errors(ctx):
        with doing(f"fixing {model}"):
            fixed = api.fix(
                model,
                loading.parse_inputs(),
                like=like,
                release=release or "",
                write=not only_diff,
                **loading.options(),
            )
        if as_json:
            print_json(
                {
                    "file": str(fixed.file),
                    "diff": fixed.diff,
                    "solved": change_rows(fixed.solved),
                    "left": change_rows(fixed.left),
                    "proof": fixed.proof,
                    "backup": None if fixed.backup is None else str(fixed.backup),
                }
            )
            ctx.exit(1 if fixed.left else 0)
        print_verdict(_verdict(fixed, only_diff=only_diff))
        for line in fixed.proof:
            echo(line)
        if fixed.diff:
            echo_text(fixed.diff.rstrip("\n"))
        print_changes(fixed.left)
        if fixed.backup is not None:
            echo(f"wrote {fixed.file}")
            echo(f"wrote {fixed.backup}")
        ctx.exit(1 if fixed.left else 0)


def _verdict(fixed: Fixed, *, only_diff: bool) -> str:
    if not fixed.solved and not fixed.left and not fixed.diff:
        return "nothing to fix"
    count = len(fixed.solved)
    done = "would be solved" if only_diff else "solved"
    return f"{count} finding{'' if count == 1 else 's'} {done}, {len(fixed.left)} left"
