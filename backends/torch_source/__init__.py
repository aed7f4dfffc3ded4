"""PyTorch source: modules as an engineer would have written them, with weights that load strictly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from ...formats.elements import Entry
from ...formats.shard_index import INDEX, earlier_files, parse_size, require_shardable
from ...formats.torch_file import write_torch
from ...ir import Graph
from ...passes.base import Pass
from ..legalise import Legalise
from ..lowering import lower
from ..source.program import make_program
from ..source.recorded_tests import Recording
from ..source.recorded_tests import write_tests as write_tests_of
from ..source.writing import write_source
from .dialect import DIALECT
from .lowering import LOWERING
from .templates.recorded_tests import WORDS

CheckpointFormat = Literal["safetensors", "pth"]

__all__ = [
    "LOWERING",
    "CheckpointFormat",
    "choose_passes",
    "earlier_files",
    "emit_source",
    "write",
    "write_tests",
]


def emit_source(graph: Graph) -> str:
    """Return the text of model.py.

    Raises:
        UnsupportedError: listing every operator that has no emitter.
        BackendError: when the graph cannot be expressed.
    """
    return make_program(lower(graph, LOWERING), DIALECT, "model.safetensors").text


def write(
    graph: Graph,
    folder: Path | str,
    *,
    force: bool = False,
    checkpoint_format: CheckpointFormat | None = None,
    explicit_initializers: bool = False,
    partial: bool = False,
    max_shard_size: int | str | None = None,
) -> list[Path]:
    """Write ``model.py``, its checkpoint and ``renames.json`` into a folder, all of them or none.

    Args:
        graph: a validated graph; it is not changed.
        folder: made if need be.
        force: replace files of the same names.
        checkpoint_format: ``safetensors``, or ``pth`` for what ``torch.save`` writes; None: the former.
        explicit_initializers: state every initial distribution, not only those that are not torch's default.
        partial: whether an operator without an emitter becomes a module that raises, to be written by hand.
        max_shard_size: most bytes of weights in a file, a number or text such as ``2GB``: more go to
            ``model-00001-of-00003.safetensors`` and so on, with their index. None: one file.

    Returns:
        The files written.

    Raises:
        UnsupportedError: listing every operator that has no emitter.
        BackendError: when the graph cannot be expressed.
        UsageError: when a file exists already, or shards of a ``.pth`` are asked for.
    """
    limit = None if max_shard_size is None else parse_size(max_shard_size)
    if limit is not None:
        require_shardable(checkpoint_format)
    in_pth = checkpoint_format == "pth"
    return write_source(
        graph,
        lower(graph, choose_passes(partial=partial)),
        Path(folder),
        DIALECT,
        to="torch",
        suffix=".pth" if in_pth else ".safetensors",
        limit=limit,
        force=force,
        explicit=explicit_initializers,
        write_one=_write_pth if in_pth else None,
        names_ties=in_pth,  # torch's own loading expects each name; safetensors' finds ties in the net
        indexes=(INDEX,),
    )


def _write_pth(path: Path, entries: Sequence[Entry]) -> None:
    write_torch(path, {name: data for name, data, _ in entries})


def write_tests(folder: Path, recording: Recording) -> list[Path]:
    """Write the tests and their values beside the ``model.py`` of a folder, and return the files written."""
    return write_tests_of(WORDS, folder, recording)


def choose_passes(*, partial: bool = False) -> list[Pass]:
    """Return the passes of `LOWERING` with options of `write`."""
    return [replace(each, partial=partial) if isinstance(each, Legalise) else each for each in LOWERING]
