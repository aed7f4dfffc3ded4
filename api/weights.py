"""Weights in files: carried over, repaired, laid on a net, compared; the part of the front door for them."""

from __future__ import annotations

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
def convert_checkpoint(
    source: str | Path,
    target: str | Path,
    map: str | Path | None = None,  # noqa: A002 - as --map
    *,
    like: object = None,
    by_order: bool = False,
    reverse: bool | None = None,
    force: bool = False,
    max_shard_size: int | str | None = None,
    part: str | None = None,
) -> Converted:
    """Convert a checkpoint, one tensor in memory at a time; no net is built.

    Going forward, what the map gives no target is left out, and what only the target has comes from the
    map. In reverse, all names of the source appear, so that it loads strictly: a tied tensor under each of
    its names, and zeros for what the target does not have (``num_batches_tracked``), which a note lists.

    Args:
        source: the checkpoint to read: a file, the index of shards, or their folder.
        target: the checkpoint to write; the suffix says what kind. A folder gets .safetensors files and their
            index.
        map: the ``renames.json`` written beside the rewritten model, or by ``verify --write-map``; or an
            object of pairs of paths; None where the frameworks' own spelling is all that differs. With
            `like` the pairs of `verify`'s `map`, or None.
        like: the net that the checkpoint is to fit, anything that `load_tree` takes: the tensors are paired
            with its parameters by name, then by shapes that leave one possibility.
        by_order: with `like`: whether the order of both pairs what has one shape, which a note says; an
            error otherwise.
        reverse: whether to go from the map's target to its source; None: the side whose names `source` has.
        force: whether `target` may be replaced.
        max_shard_size: most bytes of a file of a folder, as `save` takes it.
        part: which of several sets of tensors in `source` is read: `ema`, `model.teacher`.

    Raises:
        ModelError: E801 listing every name that has no counterpart on either side, with near matches, and
            every tensor of another shape or element type; E101 when a file cannot be read.
        UsageError: when the suffixes are not those of checkpoints, or `target` exists.
    """
    settle_beside(source, map)
    options: dict[str, Any] = {"force": force, "max_shard_size": max_shard_size, "part": part}
    if like is None:
        if by_order:
            raise UsageError("E001", "expected --like with --by-order: it pairs a checkpoint with a net")
        return convert(source, target, map, reverse=reverse, **options)
    from ..verification import read_pair_map
    from ..verification.two_nets.written_map import map_like

    if reverse:
        raise UsageError("E001", "expected no direction: the checkpoint is to fit the net")
    pairs, fused = None, list[Fused | Join]()
    if map is not None:
        pairs = read_pair_map(map)
        fused += pairs.fused if pairs.strict else read_map(map).joins
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
