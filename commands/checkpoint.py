"""`regraft convert-checkpoint` and `regraft repair-checkpoint`: carry weights over, save what is left."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import click

from .loading import constructor_arguments
from .printing import doing, echo, print_json, print_verdict, report_errors


@click.command("convert-checkpoint", short_help="Carry trained weights from one framework to another.")
@click.argument("source", type=click.Path(path_type=Path))
@click.argument("target", type=click.Path(path_type=Path))
@click.option(
    "--map",
    "map_",
    type=click.Path(path_type=Path),
    help="The renames.json beside the rewritten model, the file from verify --write-map, or pairs of paths.",
)
@click.option(
    "--part",
    metavar="NAME",
    help="The set of tensors to read where SOURCE holds several: a key (ema), or a prefix of names.",
)
@click.option(
    "--like",
    help="A MODEL that TARGET must fit: regraft pairs SOURCE's tensors with its parameters. RUNS ITS CODE.",
)
@click.option(
    "--by-order",
    is_flag=True,
    help="With --like: pair tensors of one shape, where names do not identify them, in the order of file "
    "and net.",
)
@click.option(
    "--forward/--reverse",
    "forward",
    default=None,
    help="From the map's source to its target, or back; by default the direction that SOURCE's names show.",
)
@click.option(
    "--max-shard-size",
    metavar="SIZE",
    help="Maximum size of a file where TARGET is a folder, e.g. 2GB; 5GB by default.",
)
@click.option("--force", is_flag=True, help="Replace TARGET.")
@click.option("--json", "as_json", is_flag=True, help="Write a JSON report to standard output.")
@click.pass_context
def convert_checkpoint(
    ctx: click.Context,
    source: Path,
    target: Path,
    map_: Path | None,
    part: str | None,
    like: str | None,
    by_order: bool,
    forward: bool | None,
    max_shard_size: str | None,
    force: bool,
    as_json: bool,
) -> None:
    """Convert later-trained weights from one framework's checkpoint to another's.

    SOURCE and TARGET are .ckpt, .safetensors, .params or .pth files (SOURCE also .onnx or .mindir), or
    folders of .safetensors files with their index. With a map, regraft reads only the map and does not build
    the net. Without one, it translates names that differ only in the frameworks' spelling (weight, gamma),
    and refuses tensors that names do not identify. --like builds the net that TARGET must fit; --map then
    pairs the tensors that names and shapes do not identify.
    """
    from ..api.weights import convert_checkpoint

    with report_errors(ctx):
        with doing(f"converting {source}"):
            done = convert_checkpoint(
                source,
                target,
                map_,
                like=like,
                by_order=by_order,
                part=part,
                reverse=None if forward is None else not forward,
                max_shard_size=max_shard_size,
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
        print_verdict(f"wrote {done.path}: {done.tensors} tensor{'s' if done.tensors != 1 else ''}")


@click.command("repair-checkpoint", short_help="Give the tensors of a checkpoint the right names.")
@click.argument("model")
@click.argument("source", type=click.Path(path_type=Path))
@click.option(
    "-o", "--output", "target", type=click.Path(path_type=Path), required=True, help="The new file."
)
@click.option(
    "--part", metavar="NAME", help="Which of several sets of tensors SOURCE holds is read, e.g. ema."
)
@click.option(
    "--arg", "arguments", multiple=True, metavar="NAME=VALUE", help="Constructor argument of MODEL."
)
@click.option("--force", is_flag=True, help="Replace the output.")
@click.option("--json", "as_json", is_flag=True, help="Write a JSON report to standard output.")
@click.pass_context
def repair_checkpoint(
    ctx: click.Context,
    model: str,
    source: Path,
    target: Path,
    part: str | None,
    arguments: tuple[str, ...],
    force: bool,
    as_json: bool,
) -> None:
    """Give every tensor of SOURCE the name of its parameter in MODEL.

    For a checkpoint saved while several parameters shared a name, of which MindSpore keeps only one tensor,
    and for a checkpoint whose names predate the repair of the net. MODEL (file.py:Name) is the net before or
    after the repair; THE FILE IS RUN. An optimizer's slots follow their parameters. The report names the lost
    tensors; regraft does not fill them in. Exit code 1 if a parameter has no tensor, or a tensor no
    parameter.
    """
    from ..api.weights import repair_checkpoint
    from ..checkpoints.repair import UNIQUE

    with report_errors(ctx):
        with doing(f"repairing {source}"):
            options = constructor_arguments(arguments)
            done = repair_checkpoint(model, source, target, force=force, part=part, arguments=options)
        if as_json:
            print_json({"file": str(done.path), "tensors": done.tensors, **done.fit.to_json()})
        else:
            placement = done.fit.placement
            print_verdict(done.fit.verdict)
            for line in [*done.fit.causes, *done.fit.remarks]:
                echo(line)
            count = Counter(by for _, by in placement.placed.values())
            told = ", ".join(f"{n} by {by}" for by, n in count.items())
            echo(f"placed: {len(placement.placed)} of {placement.wanted} parameters ({told})")
            echo(f"wrote {done.path}: {done.tensors} tensor{'s' if done.tensors != 1 else ''}")
            if placement.clashing:
                echo(f"write: {UNIQUE}")
        ctx.exit(0 if done.whole else 1)
