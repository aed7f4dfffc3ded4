"""Cells that were put into a SequentialCell after it was made, which goes on running the first ones only."""

from __future__ import annotations

from math import prod
from typing import Any

from ...frontends.mindspore_cell.registration import registrations
from ...passes import Change
from ...passes.naming.wording import describe_insertions, join_names
from ..subject import Subject

CODES = {"SI101": "Cells were inserted into a SequentialCell, which never runs them"}


def find(subject: Subject) -> list[Change]:
    """Return one finding for every SequentialCell that holds Cells which its `construct` does not know."""
    if subject.framework != "mindspore":
        return []
    return [change for path, part in subject.parts() if (change := _change(subject, path, part)) is not None]


def _change(subject: Subject, path: str, part: Any) -> Change | None:
    from mindspore import nn

    if not isinstance(part, nn.SequentialCell) or type(part).construct is not nn.SequentialCell.construct:
        return None
    known = {id(cell) for cell in part.cell_list}
    idle = {name: cell for name, cell in part._cells.items() if cell is not None and id(cell) not in known}
    idle = {name: cell for name, cell in idle.items() if not _is_called(subject, path, name)}
    if not idle:
        return None
    places = [registrations(part).get(name) for name in idle]
    count = sum(prod(p.shape) for cell in idle.values() for p in cell.get_parameters())
    holder = f"`{path}`" if path else f"`{subject.name}`"
    first = places[0]
    where = describe_insertions([place.place if place else "" for place in places])
    number = f"{len(idle)} cells hold" if len(idle) > 1 else "cell holds"
    return Change(
        "SI101",
        f"{join_names(list(idle))}{where} never run{'' if len(idle) > 1 else 's'}: "
        f"{holder} is a SequentialCell, which runs only the cells passed to its constructor or `append`ed; "
        f"the {number} {count:,} values",
        place=first.place if first else path or subject.name,
        severity="error",
        fixed=False,
        modules=tuple(f"{path}.{name}" if path else name for name in idle),
        advice=_advice(subject, path, idle, first),
    )


def _advice(subject: Subject, path: str, idle: dict[str, Any], first: Any) -> str:
    owner = f"self.{path}" if path else subject.name
    is_list = any(type(cell).__name__ == "CellList" for cell in idle.values())
    if is_list:
        return (
            f"`for cell in …: {owner}.append(cell)` in place of the CellList, or a Cell whose `construct` "
            "calls it"
        )
    old = "the assignment" if first is not None and first.method == "__setattr__" else "insert_child_to_cell"
    return f"`{owner}.append(cell)` in place of {old}: it names the parameters and runs the Cell"


def _is_called(subject: Subject, path: str, name: str) -> bool:
    """Whether a call was recorded, or, where none were, whether code of the file names the child."""
    tree = subject.graph.modules
    if tree.calls():
        module = tree.find(f"{path}.{name}" if path else name)
        below = set() if module is None else {module.key, *tree.below(module.key)}
        return any(call.module in below for call in tree.calls())
    import ast

    return any(
        isinstance(node, ast.Attribute) and node.attr == name and isinstance(node.ctx, ast.Load)
        for statement in subject.statements
        for node in ast.walk(statement)
    )
