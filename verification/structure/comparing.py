"""Compares a source with what was written from it, in what numbers do not show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from ...checkpoints.mapping import Map
from ...ir import Graph
from .report import Structure
from .settings import OF_NORMALISATIONS, Setting, compare_settings, settings_of
from .sharing import Held, compare_sharing
from .values import ValueComparison

_SHOWN = 3


@runtime_checkable
class Describing(Protocol):
    """A runner that lists its model's tensors, and what acts in training only."""

    settings: list[Setting] | None

    def held(self) -> list[Held]:
        """Return every tensor, each once."""
        ...


def compare_structure(
    source: Graph,
    held: Sequence[Held],
    settings: Sequence[Setting] | None,
    mapping: Map | None,
    *,
    train: bool,
    contents: bool = True,
    values: ValueComparison | None = None,
) -> tuple[Structure, list[str]]:
    """Return the differences, and notes.

    Args:
        source: the source's graph, before any pass.
        held: the target's tensors.
        settings: what acts in training only in the target; None where it has nothing of that kind, or
            nothing tells.
        mapping: the target's ``renames.json``; None where there is none.
        train: whether settings count.
        contents: see `compare_sharing`.
        values: the comparison of values, where some were compared before; None to make one.
    """
    shared, notes = compare_sharing(
        source, held, None if mapping is None else mapping.rows, contents=contents
    )
    mine = settings_of(source)
    differing = [] if mine is None or settings is None else compare_settings(mine, settings)
    if values is None and mapping is not None:
        values = ValueComparison(source, held, mapping)
    rows, count = ([], 0) if values is None else values.rows()
    return Structure(shared, differing, train, rows, count), notes


def remark_on_dropouts(source: Graph, ratios: Sequence[float]) -> str:
    """Return a remark on what an ONNX target does not draw in training; empty if the source draws nothing.

    Args:
        source: the source's graph.
        ratios: ratios of the target's Dropouts.
    """
    mine = [s for s in settings_of(source) or () if s.kind not in OF_NORMALISATIONS]
    if not mine:
        drawn = {o.op_type for o in source.operators() if o.traits.random and o.traits.trains_differently}
        names = ", ".join(sorted(drawn - {"Dropout"}))
        return f"the ONNX model draws nothing in training, where the source's {names} does" if names else ""
    places = [f"{s.value:g} in `{s.module or '(root)'}`" for s in mine[:_SHOWN]]
    more = len(mine) - _SHOWN
    places += [f"and in {more} more place{'s' if more > 1 else ''}"] if more > 0 else []
    shown = ", ".join(places)
    if not ratios:
        return f"the ONNX model has no Dropout and cannot train as the source does, which drops {shown}"
    theirs = ", ".join(f"{r:g}" for r in ratios)
    return f"the ONNX model drops {theirs} where the source drops {shown}; it is compared in inference only"
