"""Tells whether source and target are one model: then what their numbers leave open is proved by that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ..ir import Graph
from ..ir.outside.file_kinds import kind_of
from .compare import RANDOM
from .report import OutputRow
from .runners.select_runner import Target

NOTE = "source and target are one model, which proves the parts that numbers leave open"

_FILES = (".json", ".mindir", ".onnx", ".pt2")
"""Suffixes of files that a model is read from; a symbol's parameters lie in another."""


def are_one(source: Graph, target: Target) -> bool:
    """Whether a target is the source itself: the same object, or the same file.

    Args:
        source: the source's graph, as it was loaded.
        target: as in `verify`.
    """
    if target is source:
        return True
    mine = source.origin.model
    theirs = target.origin.model if isinstance(target, Graph) else target
    if isinstance(mine, (str, Path)) and isinstance(theirs, (str, Path)):
        files = Path(mine), Path(theirs)
        same = _is_data(files[0]) and all(f.is_file() for f in files) and files[0].samefile(files[1])
        return same and (not isinstance(target, Graph) or _have_one_file_of_parameters(source, target))
    return (
        isinstance(target, Graph) and mine is not None and (mine is theirs or _have_one_name(source, target))
    )


def _is_data(file: Path) -> bool:
    return file.suffix in _FILES or kind_of(file) == "torchscript"


def _have_one_file_of_parameters(source: Graph, target: Graph) -> bool:
    files = [graph.origin.parameters for graph in (source, target)]
    return str(files[0]) == str(files[1])


def _have_one_name(source: Graph, target: Graph) -> bool:
    """Whether both come from one file, or one name in a Python file, and so have the same values."""
    names = {graph.origin.reference for graph in (source, target)}
    kinds = {type(graph.origin.model).__qualname__ for graph in (source, target)}
    name = names.pop()
    return not names and len(kinds) == 1 and (".py:" in name or name.endswith(_FILES))


def excuse_random(rows: Sequence[OutputRow]) -> list[OutputRow]:
    """Return rows in which random numbers that one model draws in each run are no difference from itself."""
    nan = float("nan")
    excused = {"max_abs": nan, "max_rel": nan, "passed": True, "unproven": RANDOM}
    return [replace(row, **excused) if row.reason == RANDOM else row for row in rows]
