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
    help="The renames.json beside the rewritten model, what verify --write-map wrote, or pairs of paths.",
)
@click.option(
    "--part",
    metavar="NAME",
    help="Which of several sets of tensors SOURCE holds is read: a key (ema), or what names begin with.",
)
@click.option(
    "--like",
    help="A MODEL that TARGET is to fit: SOURCE's tensors are paired with its parameters. RUNS ITS CODE.",
)
@click.option(
    "--by-order",
    is_flag=True,
    help="With --like: pair tensors of one shape that no name tells apart in the order of file and net.",
)
@click.option(
    "--forward/--reverse",
    "forward",
    default=None,
    help="From the map's source to its target, or back; told by SOURCE's names where not given.",
)
@click.option(
    "--max-shard-size",
    metavar="SIZE",
    help="Most bytes of a file where TARGET is a folder, e.g. 2GB; 5GB if not given.",
)
@click.option("--force", is_flag=True, help="Replace TARGET.")
@click.option("--json", "as_json", is_flag=True, help="What was done as JSON on standard output.")
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
    """Carry weights that were trained later from one framework's checkpoint to another's.

    SOURCE and TARGET are .ckpt, .safetensors, .params or .pth files (SOURCE also .onnx or .mindir), or
    folders of .safetensors files with their index.
    With a map nothing but the map is read: the net is not built. Without one, names that differ in the
    frameworks' spelling alone (weight, gamma) are respelled; what names do not tell is refused. --like
    builds the net that TARGET is to fit, and takes pairs in --map where names and shapes do not tell
    them.
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
        print_verdict(f"wrote {done.path}: {done.tensors} tensors")


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
@click.option("--json", "as_json", is_flag=True, help="What was done as JSON on standard output.")
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
    """Give every tensor of SOURCE the name of the parameter of MODEL that it belongs to.

    For a checkpoint that was saved while several parameters had one name, of which MindSpore keeps one
    tensor, and for one whose names are of before the net was mended. MODEL (file.py:Name) is the net as it
    was or as it is now; THE FILE IS RUN. An optimizer's slots follow their parameters. What was lost is
    named, and not in the output: nothing is filled in. Exit code 1 where something has no tensor or place.
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
            echo(f"placed: {len(placement.placed)} of {len(placement.members)} parameters ({told})")
            echo(f"wrote {done.path}: {done.tensors} tensors")
            if placement.clashing:
                echo(f"write: {UNIQUE}")
        ctx.exit(0 if done.whole else 1)
