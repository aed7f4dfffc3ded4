"""`regraft verify`: compare two models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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
    metavar="K",
    help="For decoders: compare K steps of one token, each fed the cache of the step before, with one pass "
    "over K tokens, and nothing else. With --recipe: follow the recipes for K steps (20).",
)
@click.option(
    "--feed",
    "feed",
    multiple=True,
    metavar="INPUT=WHAT",
    help="With --steps, what feeds an input, where its name and shape do not tell: an output, such as "
    "'past.*=present.*' (+OUTPUT for one that holds the new tokens alone), or token, positions, position, "
    "last, length, mask or same; repeat.",
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
    steps: int | None,
    feed: tuple[str, ...],
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

    --steps checks a decoder with a cache of keys and values, or a net with a state: the first step that
    differs comes first, then the cache, position or mask that is at fault.
    """
    from .. import api
    from ..verification.verify_written import require_target

    with report_errors(ctx):
        require_target(target, *(p for p in (map_,) if p is not None))
        both, feeding = _both(recipes), _feeding(feed)
        stepped = steps is not None and both is None
        # of two sides that are stepped each takes those of the inputs that it has
        model = source if stepped else load(source, loading)
        given: dict[str, Any] = loading.options() if stepped else {"trust": loading.trust}
        with doing(f"verifying {target}"):
            report = api.verify(
                model,
                target,
                loading.parse_inputs() if stepped else None,
                train=train,
                map=map_,
                copy=copy,
                oracle=None if isinstance(model, str) else oracle_for(ctx, model, oracle),
                write_map=write_map,
                recipes=both,
                steps=steps,
                feed=feeding,
                html=html,
                pieces=pieces,
                certificate=certificate,
                lang=language(),
                **given,
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


def _feeding(feed: tuple[str, ...]) -> dict[str, str] | None:
    """Return input -> what feeds it, of the --feed options; None for none.

    Raises:
        UsageError: for a text of another form.
    """
    from ..ir import UsageError

    found: dict[str, str] = {}
    for text in feed:
        name, equals, what = text.partition("=")
        if not (name and equals and what):
            raise UsageError("E001", f"expected --feed INPUT=WHAT, got `{text}`")
        found[name] = what
    return found or None


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
