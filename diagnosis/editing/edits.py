"""The kinds of edits: a method's name, a registration, a list of layers, the arguments of a call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

Kind = Literal[
    "rename",
    "append",
    "assign",
    "wrap",
    "name",
    "argument",
    "draw",
    "after",
    "before",
    "behind",
    "last",
    "delete",
    "expression",
]

Span = tuple[int, int, int, int]
"""First line, first column, last line and the column after it; lines from 1, columns from 0."""


_OF_SPANS = ("argument", "draw", "after", "expression")
"""Edits of the call, or of any expression, that has their span."""


@dataclass(frozen=True, slots=True)
class Edit:
    """One edit.

    Attributes:
        kind: "rename" a method and what calls it by `self`; "append" a Cell where `insert_child_to_cell` is
            called; "assign" it as an attribute there; "wrap" the value of an assignment; "name" the
            Parameters in it; give a call an "argument"; have a call "draw" from another law; draw "after" the
            assignment of a layer; put statements "before" another one, or one
            "behind" an assignment; put statements "last" in the
            constructor of a class; "delete" the statement at a line; write an "expression" otherwise.
        line: the line of the method, the call or the assignment.
        name: the method's name, the attribute's or the argument's; empty where the line says enough.
        new: the method's new name, the constructor to wrap with, the argument's value, the statement that
            draws, of a parameter of `layer`, the one to put behind, those to put last, or the expression.
        span: of an "argument", a "draw", "after" and an "expression": its first line, first byte, last line
            and the byte after it.
        position: of an "argument": its place among those without keyword; -1 for none.
        instead: of an "argument": name and place of another that says the same and makes room for it.
    """

    kind: Kind
    line: int
    name: str = ""
    new: str = ""
    span: Span = (0, 0, 0, 0)
    position: int = -1
    instead: tuple[str, int] = ("", -1)


def apply_edits(
    source: bytes, edits: Sequence[Edit], imports: Sequence[tuple[str, str]] = ()
) -> tuple[bytes, list[Edit]]:
    """Return a file after edits, and the edits made; the file itself if none fits.

    Args:
        source: the file.
        edits: the edits, by line.
        imports: (module, name in it, or "" for the module) that the edits need.
    """
    import libcst as cst
    from libcst.codemod import CodemodContext
    from libcst.codemod.visitors import AddImportsVisitor
    from libcst.metadata import MetadataWrapper

    from .editor import Editor

    wrapper = MetadataWrapper(cst.parse_module(source))
    lines = wrapper.module.code.splitlines()
    editor = Editor([_in_characters(e, lines) if e.kind in _OF_SPANS else e for e in edits])
    made = wrapper.visit(editor)
    if editor.done and imports:
        context = CodemodContext()
        for module, name in imports:
            AddImportsVisitor.add_needed_import(context, module, name or None)
        made = AddImportsVisitor(context).transform_module(made)
    return made.bytes, list(dict.fromkeys(editor.done))


def _in_characters(edit: Edit, lines: Sequence[str]) -> Edit:
    """Return an edit whose span counts characters, of one that counts bytes."""
    first, begin, last, end = edit.span
    columns = [len(lines[at - 1].encode()[:byte].decode()) for at, byte in ((first, begin), (last, end))]
    return replace(edit, span=(first, columns[0], last, columns[1]))
