"""`regraft convert-checkpoint` and `regraft diff`: carry weights over, and compare them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from .printing import add_row, console, doing, echo, print_json, reported, table_of

if TYPE_CHECKING:
    from ..api import Diff


@click.command("convert-checkpoint")
@click.argument("source", type=click.Path(path_type=Path))
@click.argument("target", type=click.Path(path_type=Path))
@click.option(
    "--map",
    "map_",
    type=click.Path(path_type=Path),
    help="The renames.json beside the rewritten model, or what verify --write-map wrote.",
)
@click.option(
    "--like",
    help="A MODEL that TARGET is to fit: SOURCE's tensors are paired with its parameters. RUNS ITS CODE.",
)
@click.option(
    "--forward/--reverse",
    "forward",
    default=None,
    help="From the map's source to its target, or back; told by SOURCE's names where not given.",
)
@click.option("--force", is_flag=True, help="Replace TARGET.")
@click.option("--json", "as_json", is_flag=True, help="What was done as JSON on standard output.")
@click.pass_context
def convert_checkpoint(
    ctx: click.Context,
    source: Path,
    target: Path,
    map_: Path | None,
    like: str | None,
    forward: bool | None,
    force: bool,
    as_json: bool,
) -> None:
    """Carry weights that were trained later from one framework's checkpoint to another's.

    SOURCE and TARGET are .ckpt, .safetensors, .params or .pth files (SOURCE also .onnx). With a map nothing
    but the map is read: the net is not built. --like builds the net that TARGET is to fit, and takes pairs in
    --map where names and shapes do not tell them.
    """
    from .. import api

    with reported(ctx):
        with doing(f"converting {source}"):
            done = api.convert_checkpoint(
                source,
                target,
                map_,
                like=like,
                reverse=None if forward is None else not forward,
                force=force,
            )
        if as_json:
            print_json(
                {
                    "file": str(done.path),
                    "direction": "reverse" if done.reverse else "forward",
                    "tensors": done.tensors,
                    "notes": done.notes,
                }
            )
            return
        for note in done.notes:
            echo(f"note: {note}")
        echo(f"wrote {done.path}: {done.tensors} tensors")


@click.command()
@click.argument("first", type=click.Path(path_type=Path))
@click.argument("second", type=click.Path(path_type=Path))
@click.option(
    "--map", "map_", type=click.Path(path_type=Path), help="A renames.json whose two sides these are."
)
@click.option("--json", "as_json", is_flag=True, help="The report as JSON on standard output.")
@click.pass_context
def diff(ctx: click.Context, first: Path, second: Path, map_: Path | None, as_json: bool) -> None:
    """Compare two checkpoints (.ckpt, .safetensors, .params, .pth, .onnx), tensor by tensor.

    Exit code 1 on any difference. Without --json, tensors that are equal are only counted.
    """
    from .. import api

    with reported(ctx):
        with doing(f"comparing {first} and {second}"):
            report = api.diff(first, second, map_)
        if as_json:
            print_json(report.to_json())
        else:
            _print_diff(report)
        ctx.exit(0 if report.equal else 1)


def _print_diff(report: Diff) -> None:
    """The tensors that differ as a table, the others as a number."""
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
        console().print(table)
    for side, names in (("first", report.only_first), ("second", report.only_second)):
        for name in names:
            echo(f"only in the {side}: {name}")
    for name, other in report.elsewhere:
        echo(f"equal values under another name: {name} -> {other}")
    for note in report.notes:
        echo(f"note: {note}")
    alone = len(report.only_first) + len(report.only_second)
    count = f"{len(report.rows)} tensors compared, {len(changed)} differ, {alone} on one side only"
    echo(f"equal: {len(report.rows)} tensors compared" if report.equal else count)
