"""`regraft verify`: compare two models."""

from __future__ import annotations

from pathlib import Path

import click

from .completion import ModelName
from .language import language
from .loading import (
    MODEL_HELP,
    Loading,
    certificate_option,
    load,
    model_options,
    oracle_for,
    oracle_option,
    pieces_option,
)
from .pages import html_option
from .printing import doing, echo, print_json, print_report, report_errors


@click.command(epilog=MODEL_HELP, short_help="Compare two models, or a model with its target.")
@click.argument("source", type=ModelName())
@click.argument("target", type=ModelName())
@model_options
@click.option(
    "--train",
    is_flag=True,
    help="Compare one training step too: gradients, running statistics, values after SGD.",
)
@click.option(
    "--map",
    "map_",
    type=click.Path(path_type=Path),
    help="Where TARGET is a MODEL: JSON object of paths, source to target; or a renames.json.",
)
@click.option(
    "--copy-weights/--own-weights",
    "copy",
    default=None,
    help="Where TARGET is a MODEL: copy SOURCE's weights into it or not; by default if no weights are equal.",
)
@click.option(
    "--write-map",
    type=click.Path(path_type=Path),
    help="Where TARGET is a MODEL: write the pairs of parameters, for convert-checkpoint and diff.",
)
@click.option(
    "--recipe",
    "recipes",
    multiple=True,
    metavar="FILE.py:FUNCTION",
    help="Give it twice, for SOURCE and for TARGET: RUNS THE FILE. The function takes the net and returns a "
    "dict with loss, optimizer, schedule and so on; regraft compares both and follows them for some steps. "
    "Implies --train.",
)
@click.option(
    "--steps",
    type=click.IntRange(1, 10_000),
    default=20,
    show_default=True,
    help="Number of steps for which the recipes are followed.",
)
@pieces_option
@certificate_option
@oracle_option
@html_option
@click.option("-v", "--verbose", is_flag=True, help="Show every row of every table, and every note.")
@click.option("--json", "as_json", is_flag=True, help="The report as JSON on standard output.")
@click.pass_context
def verify(
    ctx: click.Context,
    source: str,
    target: str,
    loading: Loading,
    train: bool,
    map_: Path | None,
    copy: bool | None,
    write_map: Path | None,
    recipes: tuple[str, ...],
    steps: int,
    pieces: bool | None,
    certificate: bool | None,
    oracle: str | None,
    html: Path | None,
    verbose: bool,
    as_json: bool,
) -> None:
    """Compare SOURCE (a MODEL) with TARGET (an .onnx file, an emitted directory, or a MODEL).

    The verdict comes first, then the first fault and its fix, then the other differences.

    Exit code 1 if they compute different results; the report names the first module that diverges. --train
    takes only PyTorch and MindSpore, and refuses a model whose training differs from inference in more than
    Dropout and batch statistics.

    RUNS CODE: that of a MODEL named as file.py:Name, and model.py of an emitted directory. An .onnx file runs
    in ONNX Runtime, a .pt2 program and a TorchScript archive as torch's operators.

    For two MODELs written independently, regraft pairs the layers and copies SOURCE's weights into TARGET for
    the comparison; it also compares settings and initial distributions (the latter count with --train).
    """
    from .. import api
    from ..verification.verify_written import require_target

    with report_errors(ctx):
        require_target(target, *(p for p in (map_,) if p is not None))
        both = _both(recipes)
        graph = load(source, loading)
        with doing(f"verifying {target}"):
            found = oracle_for(ctx, graph, oracle)
            report = api.verify(
                graph,
                target,
                train=train,
                map=map_,
                copy=copy,
                oracle=found,
                write_map=write_map,
                recipes=both,
                steps=steps,
                html=html,
                pieces=pieces,
                certificate=certificate,
                lang=language(),
                trust=loading.trust,
            )
        if as_json:
            print_json(report.to_json())
        else:
            print_report(report, verbose=verbose)
            if write_map is not None:
                echo(f"wrote {write_map}")
            if html is not None:
                echo(f"wrote {html}")
        ctx.exit(0 if report.passed else 1)


def _both(recipes: tuple[str, ...]) -> tuple[str, str] | None:
    """Return one recipe for each side; None for none.

    Raises:
        UsageError: for one, or more than two.
    """
    from ..ir import UsageError

    if not recipes:
        return None
    if len(recipes) != 2:
        raise UsageError(
            "E001",
            f"expected --recipe twice, for SOURCE and for TARGET, got {len(recipes)}",
            hint="--recipe train_torch.py:recipe --recipe train_mindspore.py:recipe",
        )
    return recipes[0], recipes[1]
