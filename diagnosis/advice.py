"""Adds advice to findings of the passes, which know no framework, and merges findings of one cause."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from ..frontends.class_source import class_source, is_library_class
from ..frontends.mindspore_cell.prefixes import prefix_left_out
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
        elif change.code == "RP103" and subject.framework == "mindspore":
            advice = advice or _of_short_names(subject, change)
        elif change.code == "DM101":
            change, advice = _with_second_line(subject, change), advice or _of_aliases(subject, change)
        elif change.code == "DU101":
            change, advice = _with_line(subject, change), advice or _of_uncalled(subject, change)
        out.append(replace(change, advice=advice))
    return _fold_aliases(subject, out)


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
    left_out = prefix_left_out(owner)
    if left_out is not None:
        return f"auto_prefix=True at {left_out[0].file}:{left_out[1].lineno}, or {repair}"
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


def _of_short_names(subject: Subject, change: Change) -> str:
    """Return how parameters get their paths as names that a Cell leaves short; empty where none does."""
    parts = dict(subject.parts())
    for module in change.modules:
        left_out = prefix_left_out(parts.get(module.rpartition(".")[0]))
        if left_out is not None:
            line = f"{left_out[0].file}:{left_out[1].lineno}"
            return f"auto_prefix=True at {line}, if a checkpoint names them by their paths"
    return ""


def _with_second_line(subject: Subject, change: Change) -> Change:
    """Return a finding of a module that is registered twice, with the line that does it again."""
    place = _registered_again(subject, change)
    return replace(change, message=f"{change.message}, again at {place}") if place else change


def _registered_again(subject: Subject, change: Change) -> str:
    """Return the line that registers a module under its last path; empty where nobody knows."""
    path, _, name = change.modules[-1].rpartition(".")
    owner = dict(subject.parts()).get(path)
    seen = registrations(owner).get(name)
    return (seen.place if seen else "") or (assigned_at(type(owner), name) if owner is not None else "")


def _of_aliases(subject: Subject, change: Change) -> str:
    """Return advice on the line that registers a module again."""
    kept, *others = change.modules
    place = _registered_again(subject, change)
    where = f" at {place}" if place else ""
    again = f"the line{where} that registers `{others[-1]}`"
    return f"call `{kept}` and delete {again}; leave it if sharing is intended"


def _with_line(subject: Subject, change: Change) -> Change:
    """Return a finding of a module that is never called, with the line that registers it."""
    place = "" if "registered at" in change.message else _registered_at(subject, change.place)
    return replace(change, message=f"{change.message}, registered at {place}") if place else change


def _registered_at(subject: Subject, path: str) -> str:
    """Return the line that registers a part; empty where nobody knows."""
    above, _, name = path.rpartition(".")
    owner = dict(subject.parts()).get(above)
    seen = registrations(owner).get(name) if subject.framework == "mindspore" else None
    return (seen.place if seen else "") or ("" if owner is None else assigned_at(type(owner), name))


def _of_uncalled(subject: Subject, change: Change) -> str:
    """Return how to call a part that nothing calls."""
    path = change.place
    part = dict(subject.parts()).get(path)
    owner = dict(subject.parts()).get(path.rpartition(".")[0])
    name = path.rpartition(".")[2]
    if part is None or owner is None or is_library_class(type(owner)) or not name.isidentifier():
        return ""
    method = "forward" if subject.framework == "torch" else "construct"
    is_list = type(part).__name__ in ("CellList", "ModuleList")
    call = f"`for part in self.{name}: x = part(x)`" if is_list else f"`self.{name}(…)`"
    return f"{call} in `{method}` of `{type(owner).__name__}`, or delete the line that registers it"


def _fold_aliases(subject: Subject, found: Sequence[Change]) -> list[Change]:
    """Return the findings with one for all parts of one module that are registered elsewhere as well.

    A net that keeps a whole model and builds others of its first layers does that once, by one line.
    """
    aliased = [change for change in found if change.code == "DM101"]
    counts = Counter(top for change in aliased for top in _tops(change))
    uncalled = {change.place for change in found if change.code == "DU101"}
    idle = {top for top in counts if top in uncalled or not _is_called(subject, top)}
    top = max(counts, key=lambda name: (counts[name], name in idle), default="")
    if counts[top] < 2:
        return list(found)
    folded = [change for change in aliased if top in _tops(change)]
    others = [next(p for p in c.modules if not p.startswith(f"{top}.")) for c in folded]
    listed = ", ".join(f"`{name}`" for name in others[:_LISTED]) + (", …" if len(others) > _LISTED else "")
    where = _registered_at(subject, top)
    advice = (
        "call one of the two and delete the line that registers the other; leave them if sharing is intended"
    )
    if top in idle:
        advice = (
            f"`{top} = …` in place of `self.{top} = …`" + (f" at {where}" if where else "") + ": a local "
            "name does not register the unused one; leave it if sharing is intended"
        )
    one = replace(
        folded[0],
        message=f"{len(folded)} modules in `{top}` are registered again as {listed}; each is one object, "
        "not a copy",
        place=where or top,
        members=tuple(change.message for change in folded),
        modules=tuple(path for change in folded for path in change.modules),
        advice=advice,
    )
    return [
        one
        if change is folded[0]
        else replace(change, advice="as above")
        if change.code == "DU101" and change.place == top
        else change
        for change in found
        if change not in folded[1:]
    ]


_LISTED = 4
"""Names that a finding lists."""


def _tops(change: Change) -> list[str]:
    """Return the parts of the root in which a module is registered, where another path of it lies outside."""
    tops = dict.fromkeys(path.partition(".")[0] for path in change.modules if "." in path)
    return [top for top in tops if any(not path.startswith(f"{top}.") for path in change.modules)]


def _is_called(subject: Subject, name: str) -> bool:
    """Whether the root's class calls `self.<name>` somewhere."""
    source = class_source(type(subject.model))
    return source is None or any(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == name
        for node in ast.walk(source.tree)
    )


def _owner(subject: Subject) -> str:
    """Return the name by which the code calls the root: an instance's, else `self`."""
    value = vars(subject.module).get(subject.name) if subject.module is not None else None
    return subject.name if value is subject.model and value is not None else "self"
