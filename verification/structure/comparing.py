"""Compares what numbers do not show: a source, and what was written from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from ...backends.renames import read_renames
from ...ir import Graph, ModelError
from .report import Structure
from .settings import Setting, compare_settings, settings_of
from .sharing import Held, compare_sharing
from .values import compare_values

_SHOWN = 3


@runtime_checkable
class Describing(Protocol):
    """A runner that tells the tensors of its model, and what in it acts in training only."""

    settings: list[Setting] | None

    def held(self) -> list[Held]:
        """Every tensor, each once."""
        ...


def compare_structure(
    source: Graph,
    held: Sequence[Held],
    settings: Sequence[Setting] | None,
    renames: Path | None,
    *,
    train: bool,
) -> tuple[Structure, list[str]]:
    """What differs, and notes.

    Args:
        source: the source's graph, before any pass.
        held: the target's tensors.
        settings: what acts in training only in the target; None where it has nothing of that kind, or
            nothing tells.
        renames: the target's ``renames.json``; None where there is none.
        train: whether settings count.

    Raises:
        ModelError: when ``renames.json`` is malformed (E101).
    """
    shared, notes = compare_sharing(source, held, None if renames is None else _rows(renames))
    mine = settings_of(source)
    differing = [] if mine is None or settings is None else compare_settings(mine, settings)
    values, count = ([], 0) if renames is None else compare_values(source, held, renames)
    return Structure(shared, differing, train, values, count), notes


def remark_on_dropouts(source: Graph, ratios: Sequence[float]) -> str:
    """What is to be said of an ONNX target's Dropouts; empty where the source has none.

    Args:
        source: the source's graph.
        ratios: of those that the target has.
    """
    mine = [s for s in settings_of(source) or () if s.kind.startswith("Dropout")]
    if not mine:
        return ""
    places = [f"{s.value:g} in `{s.module or '(root)'}`" for s in mine[:_SHOWN]]
    places += [f"{len(mine) - _SHOWN} more"] if len(mine) > _SHOWN else []
    shown = f"{', '.join(places[:-1])} and {places[-1]}" if len(places) > 1 else places[0]
    if not ratios:
        return f"the ONNX model has no Dropout and cannot train as the source does, which drops {shown}"
    theirs = ", ".join(f"{r:g}" for r in ratios)
    return f"the ONNX model drops {theirs} where the source drops {shown}; it is compared in inference only"


def _rows(path: Path) -> list[Mapping[str, object]]:
    rows = read_renames(path).get("parameters")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ModelError("E101", "expected a list of rows under `parameters`", place=str(path))
    return rows
