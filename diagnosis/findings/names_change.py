"""Names of parameters that MindSpore changes when the net is called for the first time."""

from __future__ import annotations

from ...frontends.mindspore_cell.registration import is_named_after, registrations
from ...passes import Change
from ...passes.naming.wording import describe_insertions, join_names
from ..subject import Subject

CODES = {"NC101": "the first call of the net renames parameters: the order of the file's lines decides"}


def find(subject: Subject) -> list[Change]:
    """Return a finding for names that the first call changes (a note beside the conflict), or has changed."""
    if subject.framework != "mindspore":
        return []
    before = _names_of(subject)
    if len(set(before.values())) < len(before):
        repeated = next(n for n in before.values() if list(before.values()).count(n) > 1)
        path = next(path for path, name in before.items() if name == repeated != path)
        return [
            Change(
                "NC101",
                f"the first call of the net renames its parameters (`{repeated}` becomes `{path}`), because "
                f"they are not unique: an optimizer made after that call works, one made before it "
                "raises, and a checkpoint has the names at the time it was saved",
                place=path,
                fixed=False,
            )
        ]
    return _already(subject)


def _names_of(subject: Subject) -> dict[str, str]:
    return {path: p.name for path, p in subject.model.parameters_and_names()}


def _already(subject: Subject) -> list[Change]:
    """Whether Cells that were inserted without a prefix have one now, which only a call gives them."""
    for path, part in subject.parts():
        bare = {
            name: place
            for name, place in registrations(part).items()
            if place.method == "insert_child_to_cell" and not place.named
        }
        children = part._cells
        now = [
            name for name in bare if children.get(name) is not None and is_named_after(children[name], name)
        ]
        if len(now) > 1:
            place = bare[now[0]]
            where = describe_insertions([bare[name].place for name in now])
            return [
                Change(
                    "NC101",
                    f"{join_names(now)}{where} gave the same names until a call of the net changed them: "
                    f"before such a call, an optimizer raises, and checkpoints have other names",
                    place=place.place,
                    severity="warning",
                    fixed=False,
                    modules=tuple(f"{path}.{n}" if path else n for n in now),
                    advice=f"`{'self' if path else subject.name}.{now[0]} = cell` in place of "
                    f"insert_child_to_cell, which does not set names",
                )
            ]
    return []
