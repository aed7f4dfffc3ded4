"""MindSpore source: what an engineer would have written by hand, with a checkpoint that loads strictly."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal

from ...formats.ckpt import write_ckpt
from ...formats.shard_index import earlier_files, parse_size, require_shardable
from ...ir import BackendError, Graph
from ...passes.base import Pass
from ..legalise import Legalise
from ..lowering import lower
from ..source.program import make_program
from ..source.recorded_tests import Recording
from ..source.recorded_tests import write_tests as write_tests_of
from ..source.writing import write_source
from .dialect import DIALECT
from .lowering import LOWERING
from .lowering.write_out_attention import WriteOutAttention
from .templates.recorded_tests import WORDS

__all__ = [
    "CKPT_LIMIT",
    "LOWERING",
    "CheckpointFormat",
    "choose_passes",
    "earlier_files",
    "emit_source",
    "write",
    "write_tests",
]

CheckpointFormat = Literal["ckpt", "safetensors"]

CKPT_LIMIT = 2_100_000_000
"""Most bytes of weights that MindSpore loads from a ``.ckpt``: one protobuf message, at most 2 GiB."""


def emit_source(graph: Graph, checkpoint_format: CheckpointFormat = "ckpt") -> str:
    """Return the text of model.py.

    Raises:
        UnsupportedError: listing every operator that has no emitter.
        BackendError: when the graph cannot be expressed.
    """
    return make_program(lower(graph, LOWERING), DIALECT, f"model.{checkpoint_format}").text


def write(
    graph: Graph,
    folder: Path | str,
    *,
    force: bool = False,
    checkpoint_format: CheckpointFormat | None = None,
    explicit_initializers: bool = False,
    attention_layers: bool = False,
    partial: bool = False,
    max_shard_size: int | str | None = None,
) -> list[Path]:
    """Write ``model.py``, its checkpoint and ``renames.json`` into a folder, all of them or none.

    Args:
        graph: a validated graph; it is not changed.
        folder: made if need be.
        force: replace files of the same names.
        checkpoint_format: ``ckpt`` or ``safetensors``; None: the former up to `CKPT_LIMIT`.
        explicit_initializers: state every initial distribution that a layer takes as an argument, not only
            those that are not MindSpore's default or were not in every MindSpore from 1.8 on.
        attention_layers: write attention as MindSpore's nn.MultiheadAttention where that computes the same,
            not as a class of its parts; layers of a MindSpore source stay what they are.
        partial: whether an operator without an emitter becomes a Cell that raises, to be written by hand.
        max_shard_size: most bytes of weights in a file, a number or text such as ``2GB``: more go to
            ``model-00001-of-00003.safetensors`` and so on, with their index. None: one file.

    Returns:
        The files written.

    Raises:
        UnsupportedError: listing every operator that has no emitter.
        BackendError: when the graph cannot be expressed, or the checkpoint would be too large for its format.
        UsageError: when a file exists already, or shards of a ``.ckpt`` are asked for.
    """
    limit = None if max_shard_size is None else parse_size(max_shard_size)
    if limit is not None:
        require_shardable(checkpoint_format)
    legal = lower(graph, choose_passes(partial=partial, attention_layers=attention_layers))
    checkpoint_format = "safetensors" if limit is not None else _choose_format(legal, checkpoint_format)
    return write_source(
        graph,
        legal,
        Path(folder),
        DIALECT,
        to="mindspore",
        suffix=f".{checkpoint_format}",
        limit=limit,
        force=force,
        explicit=explicit_initializers,
        write_one=write_ckpt if checkpoint_format == "ckpt" else None,
    )


def _choose_format(legal: Graph, wanted: CheckpointFormat | None) -> CheckpointFormat:
    """Return the checkpoint format asked for, else the one that the weights fit into."""
    size = sum(parameter.data.nbytes for parameter in legal.parameters())
    if size <= CKPT_LIMIT:
        return wanted or "ckpt"
    if wanted == "ckpt":
        raise BackendError(
            "E602",
            f"expected weights that fit into a .ckpt, which holds at most 2 GiB, got {size / 1e9:.1f} GB",
            hint="--checkpoint-format safetensors has no such limit",
        )
    return "safetensors"


def write_tests(folder: Path, recording: Recording) -> list[Path]:
    """Write the tests and their values beside the ``model.py`` of a folder, and return the files written."""
    return write_tests_of(WORDS, folder, recording)


def choose_passes(*, partial: bool = False, attention_layers: bool = False) -> list[Pass]:
    """Return the passes of `LOWERING` with options of `write`."""
    passes: list[Pass] = []
    for each in LOWERING:
        match each:
            case Legalise():
                passes.append(replace(each, partial=partial))
            case WriteOutAttention():
                passes.append(replace(each, keep=attention_layers))
            case _:
                passes.append(each)
    return passes
