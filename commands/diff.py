"""`regraft diff`: compare two checkpoints, or a checkpoint with a net."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import click

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


@click.command(short_help="Compare two checkpoints, or a net with one.")
@click.argument("first")
@click.argument("second")
@click.option(
    "--map",
    "map_",
    type=click.Path(path_type=Path),
    help="A renames.json whose two sides these are, or pairs of paths.",
)
@click.option("--part", metavar="NAME", help="The set of tensors to read where a file holds several.")
@click.option("--json", "as_json", is_flag=True, help="The report as JSON on standard output.")
@click.pass_context
def diff(
    ctx: click.Context, first: str, second: str, map_: Path | None, part: str | None, as_json: bool
) -> None:
    """Compare two checkpoints (.ckpt, .safetensors, .params, .pth, .onnx, .mindir), tensor by tensor.

    Exit code 1 on any difference. Without --json, the report only counts equal tensors.

    FIRST may be a MODEL, file.py:Name, WHICH IS RUN: the report says whether the checkpoint holds a tensor
    for each of its parameters, or lost some when it was saved because they shared a name.

    FIRST and SECOND may be folders: checkpoints in shards with their index, or one checkpoint per epoch, to
    show where two training runs diverge.
    """
    from ..api import weights

    with report_errors(ctx):
        if is_model(first) or is_model(second):
            model, file = (first, second) if is_model(first) else (second, first)
            if map_ is not None:
                raise click.UsageError("--map is for two checkpoints")
            with doing(f"comparing {model} and {file}"):
                fit = weights.fit(model, file, part=part)
            if as_json:
                print_json(fit.to_json())
            else:
                _print_fit(fit)
            ctx.exit(0 if fit.equal else 1)
        if weights.are_runs(first, second):
            with doing(f"comparing {first} and {second}"):
                runs = weights.diff_runs(first, second, map_)
            if as_json:
                print_json(runs.to_json())
            else:
                _print_runs(runs)
            ctx.exit(0 if runs.equal else 1)
        with doing(f"comparing {first} and {second}"):
            report = weights.diff(first, second, map_, part=part)
        if as_json:
            print_json(report.to_json())
        else:
            _print_diff(report)
        ctx.exit(0 if report.equal else 1)


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
    count = f"{len(report.rows)} tensors compared, {len(changed)} differ, {alone} on one side only"
    print_verdict(f"equal: {len(report.rows)} tensors compared" if report.equal else count)
