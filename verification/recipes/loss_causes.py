"""The calls by which a target's loss gives other values than the source's, as rows with what to write."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from typing import Any

from ...frontends.constructions import construction_of
from ...frontends.loss_parts import added_parts
from ...frontends.training_script import Script
from ...ir.validation import verifies_each
from ..causes.finding import constructed_at, described, without
from ..causes.hosts import Host
from ..causes.instrumenting import recorded_call
from ..causes.replaying import Draw
from ..causes.search import Found, find_causes
from ..causes.tape import Tape
from ..causes.translating import translated
from .report import RecipeRow

_SECONDS = 30.0
"""Processor time in which causes are searched for at most."""

_ARGUMENT = re.compile(r"\w+=")


def recorded_loss(host: Host, script: Script, output: Any, labels: Any) -> Tape | None:
    """Return the calls that a loss makes of an output and labels; None where nobody can record them."""
    loss = script.loss
    made = construction_of(loss) if isinstance(loss, host.base()) else None
    place = ("", 0) if made is None else (made.file, made.line)
    try:
        return recorded_call(
            host, loss, (output, labels), place, lambda parts: added_parts(parts, script.loss_weights)
        )
    except Exception:  # the user's functions may fail where they are rewritten
        if verifies_each():
            raise
        return None


def loss_causes(draws: Sequence[tuple[Tape | None, Tape | None]]) -> list[RecipeRow]:
    """Return the calls that make a target's loss differ, the first first; none where nobody knows.

    Args:
        draws: what both losses call on equal outputs and labels, a pair for each batch.
    """
    known = [Draw(mine, theirs) for mine, theirs in draws if mine is not None and theirs is not None]
    if len(known) < len(draws) or not all(draw.is_like(known[0]) for draw in known):
        return []
    try:
        host = known[0].target.host
        with host.ready(host.base()()):
            found = find_causes(known, time.process_time() + _SECONDS)
        rows = [_row(cause, (known[0].source.host, host)) for cause in found]
    except Exception:  # a fault of the search is none of the verdict, which stands without it
        if verifies_each():
            raise
        return []
    return [row for row in rows if row.advice]


def _row(found: Found, hosts: tuple[Host, Host]) -> RecipeRow:
    record, other, change = found.record, found.other, found.change
    at = record if record is not None else found.behind
    place = at.site.place if at is not None and at.site.line else ""
    if change is not None and record is not None:
        if record.kind == "layer":
            place = constructed_at(record.function) or place
        called = record.site.expression if record.kind == "operator" else record.site.text
        where = f" in `{called}`" if _ARGUMENT.match(change.write) else ""
        mine, theirs = str(change.source), str(change.target)
        return RecipeRow(change.name, mine, theirs, advice=change.write + where, place=place)
    theirs = described(record if found.kind != "missing" else None)
    return RecipeRow("call", described(other), theirs, advice=_said(found, hosts), place=place)


def _said(found: Found, hosts: tuple[Host, Host]) -> str:
    """Return the remedy where the target's call differs from the source's; empty if it is unknown."""
    if found.kind == "extra" and found.record is not None:
        return without(found.record, found.passed)
    text = found.text
    if not text and found.other is not None and found.other.kind != "operator":
        text = translated(found.other, found.arrays, hosts)
    if not text and found.other is not None and found.kind == "missing":
        text = f"what the source's `{found.other.site.whole}` computes"
    if not text or found.record is None:
        return text
    if found.kind == "missing":
        return f"{text} before `{found.record.site.expression}`"
    return f"{text} in place of `{found.record.site.whole}`"
