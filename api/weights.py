"""Weights in files: carried over, repaired, laid on a net, compared; the part of the front door for them."""

from __future__ import annotations

from functools import wraps
from pathlib import Path
from typing import Any

from ..checkpoints import holds_one
from ..checkpoints.convert import Converted
from ..checkpoints.convert import convert_checkpoint as convert
from ..checkpoints.diff import Diff, diff_checkpoints
from ..checkpoints.joins import Fused, Join
from ..checkpoints.mapping import Map, read_map
from ..checkpoints.repair import Fit, Repaired, fit_checkpoint
from ..checkpoints.repair import repair_checkpoint as repair
from ..checkpoints.runs import Runs
from ..checkpoints.runs import diff_runs as compare_runs
from ..formats.files import settle_beside
from ..frontends import read_tree
from ..ir import TensorData, UsageError
from ..process.entry import public_call
from .load_options import loading

__all__ = ["are_runs", "convert_checkpoint", "diff", "diff_runs", "fit", "repair_checkpoint"]


@public_call()
@wraps(convert)
def convert_checkpoint(
    source: str | Path,
    target: str | Path,
    map_: str | Path | None = None,
    *,
    like: object = None,
    by_order: bool = False,
    **options: Any,
) -> Converted:
    """Convert a checkpoint; see `checkpoints.convert.convert_checkpoint`.

    Args:
        source: as there.
        target: as there.
        map_: as there; with `like` the pairs of `verify`'s `map`, or None.
        like: the net that the checkpoint is to fit, anything that `load_tree` takes: the tensors are paired
            with its parameters by name, then by shapes that leave one possibility.
        by_order: with `like`: whether the order of both pairs what has one shape, which a note says; an
            error otherwise.
        options: as there.
    """
    settle_beside(source, map_)
    if like is None:
        if by_order:
            raise UsageError("E001", "expected --like with --by-order: it pairs a checkpoint with a net")
        return convert(source, target, map_, **options)
    from ..verification import read_pair_map
    from ..verification.two_nets.written_map import map_like

    if options.pop("reverse", None):
        raise UsageError("E001", "expected no direction: the checkpoint is to fit the net")
    pairs, fused = None, list[Fused | Join]()
    if map_ is not None:
        pairs = read_pair_map(map_)
        fused += pairs.fused if pairs.strict else read_map(map_).joins
    net = read_tree(like, loading())

    def make_map(given: dict[str, TensorData], notes: list[str]) -> tuple[Map, dict[str, TensorData]]:
        return map_like(net, source, given, pairs, fused, notes, by_order=by_order)

    return convert(source, target, make_map, **options)


@public_call()
def repair_checkpoint(
    net: object,
    source: str | Path,
    target: str | Path,
    *,
    force: bool = False,
    part: str | None = None,
    **options: Any,
) -> Repaired:
    """Give every tensor of a checkpoint the name of the parameter that it belongs to, and say what was lost.

    Args:
        net: anything that `load_tree` takes: the net as it was when it was saved, or mended since.
        source: a checkpoint that colliding names damaged, or whose names are of before a net was mended.
        target: the checkpoint to write. What was lost is not in it.
        force: whether `target` may be replaced.
        part: which of several sets of tensors in `source` is read: `ema`, `model.teacher`.
        options: loading options, as in `load`.
    """
    settle_beside(source, target)
    return repair(read_tree(net, loading(**options)), source, target, force=force, part=part)


@public_call()
def fit(net: object, checkpoint: str | Path, *, part: str | None = None, **options: Any) -> Fit:
    """Say how a checkpoint fits a net: which parameters it holds, and what was lost when it was saved.

    Args:
        net: anything that `load_tree` takes.
        checkpoint: the file.
        part: which of several sets of tensors in it is read.
        options: loading options, as in `load`.
    """
    settle_beside(checkpoint)
    return fit_checkpoint(read_tree(net, loading(**options)), checkpoint, part)


@public_call()
def diff(
    a: str | Path,
    b: str | Path,
    map: str | Path | None = None,  # noqa: A002 - as --map
    *,
    part: str | None = None,
) -> Diff:
    """Compare two checkpoints, tensor by tensor.

    Args:
        a: a ``.ckpt``, ``.safetensors``, ``.params``, ``.pth`` (weights only) or ``.onnx`` file, or shards
            in a folder.
        b: likewise, of the same kind or another.
        map: a ``renames.json`` whose two sides these are, in either order.
        part: which of several sets of tensors is read, in the files that have it.

    Returns:
        The report; `equal` is False as soon as a tensor differs or is on one side only.
    """
    settle_beside(a, b, map)
    return diff_checkpoints(a, b, map, part)


def are_runs(a: str | Path, b: str | Path) -> bool:
    """Return whether two paths are folders with a checkpoint an epoch, rather than checkpoints in shards."""
    folders = [Path(each) for each in (a, b)]
    return all(folder.is_dir() for folder in folders) and not any(map(holds_one, folders))


@public_call()
def diff_runs(a: str | Path, b: str | Path, map: str | Path | None = None) -> Runs:  # noqa: A002 - as --map
    """Compare two training runs, each a folder with one checkpoint an epoch.

    Args:
        a: a folder; the first number that differs between the files' names is the epoch's.
        b: likewise.
        map: as in `diff`.
    """
    settle_beside(a, b, map)
    return compare_runs(a, b, map)
