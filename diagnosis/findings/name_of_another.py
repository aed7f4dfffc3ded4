"""Parameters that were assigned to another layer, and kept the name of the place that they come from."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...frontends.class_source import class_source
from ...passes import Change
from ..subject import Subject

CODES = {"PN102": "a Parameter that was assigned to a layer has a name that is not of that layer"}


def find(subject: Subject) -> list[Change]:
    """A finding for each assignment ``self.a.weight = …`` whose Parameter is not called ``a.weight``.

    Names that Cells with ``auto_prefix=False`` leave short are another finding's (PT120).
    """
    if subject.framework != "mindspore":
        return []
    parts = dict(subject.parts())
    if any(not getattr(part, "_auto_prefix", True) for part in parts.values()):
        return []
    named = {path: p.name for path, p in subject.model.parameters_and_names() if p.name != path}
    found: list[Change] = []
    for path, place, statement in _assigned(subject):
        name = named.pop(path, None)
        if name is None:
            continue
        found.append(
            Change(
                "PN102",
                f"`{path}` is called `{name}`, because the Parameter assigned here keeps its own name: a "
                f"checkpoint must use that name, and a value stored as `{path}` is skipped without an error",
                place=place,
                severity="warning",
                fixed=False,
                modules=(path,),
                advice=f"`{statement}` after the assignment",
            )
        )
    return found


def _assigned(subject: Subject) -> Iterator[tuple[str, str, str]]:
    """(path of a parameter of a part's part, place of its assignment, the statement that names it)."""
    for above, part in subject.parts():
        source = class_source(type(part))
        for target, chain in _targets(source.tree, own=True) if source is not None else ():
            path = f"{above}.{chain}" if above else chain
            yield path, f"{source.file}:{target.lineno}" if source else "", _statement(target, chain)
    for target, chain in _targets(subject.syntax, own=False) if subject.syntax is not None else ():
        yield chain, subject.place(target.lineno), _statement(target, chain)


def _statement(target: ast.Attribute, chain: str) -> str:
    return f'{ast.unparse(target)}.name = "{chain}"'


def _targets(tree: ast.AST, *, own: bool) -> Iterator[tuple[ast.Attribute, str]]:
    """(what is assigned, its path below `self`, or below another name), two attributes deep or more."""
    for node in ast.walk(tree):
        for target in node.targets if isinstance(node, ast.Assign) else ():
            chain: list[str] = []
            below: ast.expr = target
            while isinstance(below, ast.Attribute):
                chain.append(below.attr)
                below = below.value
            is_own = isinstance(below, ast.Name) and (below.id == "self") is own
            if isinstance(target, ast.Attribute) and is_own and len(chain) > 1:
                yield target, ".".join(reversed(chain))
