"""Adds advice to findings of the passes, which know no framework, and merges findings of one cause."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..frontends.mindspore_cell.registration import registrations
from ..passes import Change
from .subject import Subject, assigned_at


def add_advice(subject: Subject, found: Sequence[Change]) -> list[Change]:
    """Return the findings, with advice where they have none."""
    out: list[Change] = []
    for change in found:
        advice = change.advice
        if change.code in ("RP101", "DU104") and subject.framework == "mindspore":
            advice = advice or _of_names(subject, change)
        elif change.code == "DM101":
            advice = advice or _of_aliases(subject, change)
        out.append(replace(change, advice=advice))
    return out


def drop_repeated(found: Sequence[Change]) -> list[Change]:
    """Return the findings without those that repeat another's cause."""
    never = {path for change in found if change.code == "SI101" for path in change.modules}
    loose = {path for change in found if change.code in ("PL101", "PL102") for path in change.modules}
    kept = []
    for change in found:
        if change.code == "DU101" and change.place in never:
            continue
        if change.code in ("RP101", "RP102", "RP103") and change.modules and loose:
            inside = [any(f"{m}.".startswith(f"{path}.") for path in loose) for m in change.modules]
            if all(inside):
                continue
        kept.append(change)
    return list(dict.fromkeys(kept))


def _of_names(subject: Subject, change: Change) -> str:
    """Return how to register Cells so that their parameters have different names."""
    from mindspore import nn

    net = subject.name if subject.name.islower() else "net"
    repair = f"`regraft.unique_names({net})` before the optimizer"
    if not change.modules:
        return repair
    path, _, name = change.modules[-1].rpartition(".")
    owner = dict(subject.parts()).get(path)
    called = f"self.{path}" if path else _owner(subject)
    how = registrations(owner).get(name) if owner is not None else None
    if isinstance(owner, nn.SequentialCell):
        return f"`{called}.append(cell)` in place of insert_child_to_cell, or {repair}"
    if isinstance(owner, nn.CellList):
        return f"`nn.CellList([…])` without `auto_prefix=False`, or {repair}"
    if how is None or how.method == "insert_child_to_cell":
        holder = "self" if path or how is None or how.in_class else called
        return (
            f"`{holder}.{name} = cell` (in a loop `setattr({holder}, name, cell)`) in place of "
            f"insert_child_to_cell, or {repair}"
        )
    return repair


def _of_aliases(subject: Subject, change: Change) -> str:
    """Return advice on the line that registers a module again."""
    kept, *others = change.modules
    path, _, name = others[-1].rpartition(".")
    owner = dict(subject.parts()).get(path)
    seen = registrations(owner).get(name)
    place = seen.place if seen else ""
    place = place or (assigned_at(type(owner), name) if owner is not None else "")
    where = f" at {place}" if place else ""
    again = f"the line{where} that registers `{others[-1]}`"
    return f"call `{kept}` and delete {again}; leave it where sharing is meant"


def _owner(subject: Subject) -> str:
    """Return the name by which the code calls the root: an instance's, else `self`."""
    value = vars(subject.module).get(subject.name) if subject.module is not None else None
    return subject.name if value is subject.model and value is not None else "self"
