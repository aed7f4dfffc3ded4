"""`regraft diff`: compare two models, two checkpoints, or a checkpoint with a net."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .loading import parse_inputs
from .model_diff import print_model_diff
from .pages import html_option
from .printing import (
    add_row,
    doing,
    echo,
    print_json,
    print_table,
    print_verdict,
    report_errors,
    table_of,
)

if TYPE_CHECKING:
    from ..checkpoints.diff import Diff
    from ..checkpoints.repair import Fit
    from ..checkpoints.runs import Runs


@click.command(short_help="Compare two models, two checkpoints, or a net with one.")
@click.argument("first")
@click.argument("second")
@click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="[NAME=]SHAPE[:DTYPE]",
    help="Example input of two models, as `regraft show` takes it; repeat.",
)
@click.option(
    "--weights", is_flag=True, help="Compare the tensors of two .onnx or .mindir files alone, by their names."
)
@click.option(
    "--map",
    "map_",
    type=click.Path(path_type=Path),
    help="A renames.json whose two sides these are, or pairs of paths.",
)
@click.option("--part", metavar="NAME", help="The set of tensors to read where a file holds several.")
@click.option(
    "--output-format",
    "form",
    type=click.Choice(["text", "json", "markdown"]),
    default="text",
    show_default=True,
    help="Markdown, for two models, is for the comment of a pull request.",
)
@click.option("--json", "as_json", is_flag=True, help="The report as JSON on standard output.")
@html_option
@click.option("--trust", is_flag=True, help="Let a .pt2 file RUN CODE, as `regraft show` does.")
@click.pass_context
def diff(
    ctx: click.Context,
    first: str,
    second: str,
    inputs: tuple[str, ...],
    weights: bool,
    map_: Path | None,
    part: str | None,
    form: str,
    as_json: bool,
    html: Path | None,
    trust: bool,
) -> None:
    """Compare two models, or two checkpoints.

    Two models (.onnx, .mindir, .pt2, .pt, x-symbol.json, file.py:Name, WHICH IS RUN) are compared as reviews
    compare code: modules, operators with their attributes, weights, inputs and outputs; parts that moved or
    have another name are shown as moved. Operators of file.py:Name are compared with --input.

    Two checkpoints (.ckpt, .safetensors, .params, .pth, .onnx, .mindir) are compared tensor by tensor; the
    report only counts equal tensors.

    One MODEL, file.py:Name, and one checkpoint: the report says whether the checkpoint holds a tensor for
    each parameter of the model, or lost some when it was saved because they shared a name.

    FIRST and SECOND may be folders: checkpoints in shards with their index, or one checkpoint per epoch, to
    show where two training runs diverge.

    Exit code 1 on any difference.
    """
    from ..api import weights as checkpoints

    ctx.params["as_json"] = as_json = as_json or form == "json"  # an error is a document then too
    with report_errors(ctx):
        if are_models(first, second, shown=bool(inputs)) and not (weights or map_ or part):
            from ..api.model_diff import diff_models

            with doing(f"comparing {first} and {second}"):
                found = diff_models(first, second, parse_inputs(inputs), trust=trust)
            print_model_diff(found, "json" if as_json else form, html)
            ctx.exit(0 if found.equal else 1)
        require_one_kind(first, second, shown=bool(inputs))
        if inputs or html or trust or form == "markdown":
            raise click.UsageError(
                "expected two models, because of --input, --html, --trust or markdown, got a checkpoint"
            )
        if is_model(first) or is_model(second):
            model, file = (first, second) if is_model(first) else (second, first)
            if map_ is not None:
                raise click.UsageError("--map is for two checkpoints")
            with doing(f"comparing {model} and {file}"):
                fit = checkpoints.fit(model, file, part=part)
            if as_json:
                print_json(fit.to_json())
            else:
                _print_fit(fit)
            ctx.exit(0 if fit.equal else 1)
        if checkpoints.are_runs(first, second):
            with doing(f"comparing {first} and {second}"):
                runs = checkpoints.diff_runs(first, second, map_)
            if as_json:
                print_json(runs.to_json())
            else:
                _print_runs(runs)
            ctx.exit(0 if runs.equal else 1)
        with doing(f"comparing {first} and {second}"):
            report = checkpoints.diff(first, second, map_, part=part)
        if as_json:
            print_json(report.to_json())
        else:
            _print_diff(report)
        ctx.exit(0 if report.equal else 1)


def are_models(first: str, second: str, *, shown: bool) -> bool:
    """Whether both arguments name models, and not a model's code and a file of its weights.

    Args:
        first: an argument.
        second: the other.
        shown: whether example inputs were given, which code needs to be read as a graph.
    """
    from .. import api

    code = [is_model(text) for text in (first, second)]
    files = [not is_code and api.is_data(text) for is_code, text in zip(code, (first, second), strict=True)]
    return all(code) or all(files) or (shown and any(code) and any(files))


def require_one_kind(first: str, second: str, *, shown: bool) -> None:
    """Refuse a model that is no checkpoint beside the folder of an emitted net.

    Args:
        first: an argument.
        second: the other.
        shown: whether example inputs were given, which a net and a checkpoint do without.

    Raises:
        UsageError: for such arguments (E001).
    """
    from .. import api
    from ..ir import UsageError

    for file, folder in ((first, second), (second, first)):
        net = Path(folder) / "model.py"
        alone = Path(file).suffix in (".pt2", ".pt") and api.is_data(file)
        if net.is_file() and (alone or (shown and (is_model(file) or api.is_data(file)))):
            raise UsageError(
                "E001",
                f"expected two models or two checkpoints, got the model `{file}` and the folder `{folder}`",
                hint=f"name the net of the folder: `{net}:build`, with --input",
            )


def is_model(text: str) -> bool:
    """Whether an argument names a model's code, ``file.py:Name`` or ``package.module:Name``."""
    where, _, name = text.rpartition(":")
    return bool(where) and name.replace(".", "").isidentifier() and not Path(text).exists()


def _print_fit(fit: Fit) -> None:
    """Print the verdict, its causes, and the commands that help."""
    print_verdict(fit.verdict)
    for line in [*fit.causes, *fit.remarks]:
        echo(line)
    for line in fit.advice:
        echo(f"write: {line}")


_BARS = "▁▂▃▄▅▆▇█"
_ROWS = 20


def _curve(values: list[float]) -> str:
    """Return numbers over time as bars, the largest the highest."""
    top = max((v for v in values if math.isfinite(v)), default=0.0)
    return "".join(
        "?" if not math.isfinite(v) else _BARS[min(int(v / top * 8), 7) if top else 0] for v in values
    )


def _print_runs(runs: Runs) -> None:
    """Print the verdict, its causes, and every layer over time, those that differ most first."""
    print_verdict(runs.verdict)
    for line in runs.causes:
        echo(line)
    table = table_of("parameter", "apart", ">at last", ">norms", ">spreads", "updates", ">last")
    layers = runs.layers
    worst = sorted(layers, key=lambda layer: -max(layer.gaps))[:_ROWS]
    for layer in [each for each in layers if each in worst]:
        add_row(
            table,
            layer.name if layer.name == layer.other else f"{layer.name} -> {layer.other}",
            _curve(layer.gaps),
            f"{layer.gaps[-1]:.2g}",
            *(f"{a[-1]:.3g} | {b[-1]:.3g}" for a, b in (layer.norms, layer.spreads)),
            " | ".join(_curve(side) for side in layer.updates),
            " | ".join(f"{side[-1]:.2g}" if side else "-" for side in layer.updates),
        )
    print_table(table)
    if len(layers) > len(worst):
        echo(f"and {len(layers) - len(worst)} parameters with smaller differences (--json lists all)")
    for side, names in zip(("first", "second"), runs.alone, strict=True):
        if names:
            echo(f"only in the {side}: {', '.join(names[:5])}" + (", …" if len(names) > 5 else ""))
    for note in runs.notes:
        echo(f"note: {note}")
    start, end = runs.epochs[0][0], runs.epochs[-1][0]
    echo(f"{len(runs.epochs)} checkpoints aligned, {start} to {end}; values are those of the last")


def _print_diff(report: Diff) -> None:
    """Print the tensors that differ as a table, the others as a number."""
    changed = [r for r in report.rows if not r.equal]
    if changed:
        table = table_of("tensor", "shape", "dtype", ">max abs", ">max rel", ">mean", ">std")
        for r in changed:
            add_row(
                table,
                r.name if r.name == r.other else f"{r.name} -> {r.other}",
                *(
                    str(left) if left == right else f"{left} -> {right}"
                    for left, right in ((list(r.shapes[0]), list(r.shapes[1])), r.dtypes)
                ),
                *("-" if v is None else f"{v:.2g}" for v in (r.max_abs, r.max_relative)),
                *(f"{left:.3g} -> {right:.3g}" for left, right in (r.means, r.stds)),
            )
        print_table(table)
    for side, names in (("first", report.only_first), ("second", report.only_second)):
        for name in names:
            echo(f"only in the {side}: {name}")
    for name, other in report.elsewhere:
        echo(f"equal values under another name: {name} -> {other}")
    for note in report.notes:
        echo(f"note: {note}")
    alone = len(report.only_first) + len(report.only_second)
    compared = f"{len(report.rows)} tensor{'s' if len(report.rows) != 1 else ''} compared"
    differing = f"{compared}, {len(changed)} differ, {alone} on one side only"
    print_verdict(f"equal: {compared}" if report.equal else differing)
