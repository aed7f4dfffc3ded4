"""Decides whether layers whose settings are known to differ are all that makes a target's outputs differ."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ...frontends.constructions import part_at
from ...ir import Graph
from ..two_nets.attributes import AttributeRow
from .repairs import values_of
from .replaying import Draw, replayed
from .tape import Tape, behind
from .values import SAME, relation

_CLOSE = 1e-5
"""Share of the largest value up to which values count as equal."""


def are_all(draws: Sequence[Draw], known: Iterable[AttributeRow], graphs: tuple[Graph, Graph]) -> bool:
    """Whether the results of the source's layers, in the place of the target's, make all outputs right.

    The target's layers must be given what the source's are: else something before them differs as well.

    Args:
        draws: calls of both sides.
        known: settings that differ; those of structure and of training name no layer that computes otherwise.
        graphs: the source's and the target's.
    """
    rows = [row for row in known if not row.structure and not row.training]
    pairs = {
        id(theirs): mine
        for row in rows
        if (mine := part_at(graphs[0].origin.model, row.module)) is not None
        and (theirs := part_at(graphs[1].origin.model, row.target)) is not None
    }
    return bool(pairs) and all(_is_right(draw, pairs) for draw in draws)


def _is_right(draw: Draw, pairs: dict[int, Any]) -> bool:
    """Whether all outputs of a draw are right once layers of the target's give what the source's do."""
    places: dict[int, int] = {}
    for at, record in enumerate(draw.target.records):
        if record.kind == "layer" and id(record.function) in pairs:
            count = sum(draw.target.records[other].function is record.function for other in places)
            calls = _calls(draw.source, pairs[id(record.function)])
            if count >= len(calls):
                return False
            places[at] = calls[count]
    if not places:
        return False
    edits = {at: values_of(other) for at, other in places.items()}
    values = replayed(draw, edits, behind(draw.target, list(edits)))
    if values is None or draw.wrong_outputs(_CLOSE, values):
        return False
    for at, other in places.items():
        theirs = [values.get(ref, draw.target.value(ref)) for ref in draw.target.records[at].refs()]
        mine = [draw.source.value(ref) for ref in draw.source.records[other].refs()]
        if len(mine) != len(theirs) or any(
            a.shape != b.shape or relation(a, b, _CLOSE) != SAME for a, b in zip(mine, theirs, strict=True)
        ):
            return False
    return True


def _calls(tape: Tape, layer: Any) -> list[int]:
    return [at for at, record in enumerate(tape.records) if record.function is layer]
