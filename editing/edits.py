"""What can be edited: a method's name, a registration, a list that becomes the framework's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import libcst as cst

Kind = Literal["rename", "append", "assign", "wrap"]


@dataclass(frozen=True, slots=True)
class Edit:
    """One edit.

    Attributes:
        kind: "rename" a method and what calls it by `self`; "append" a Cell where `insert_child_to_cell` is
            called; "assign" it as an attribute there; "wrap" the value of an assignment.
        line: the line of the method, the call or the assignment.
        name: the method's name, or the attribute's; empty where the line says enough.
        new: the method's new name, or the constructor to wrap with.
    """

    kind: Kind
    line: int
    name: str = ""
    new: str = ""


def edited(source: bytes, edits: Sequence[Edit]) -> tuple[bytes, list[Edit]]:
    """A file after edits, and those that were made; the file as it was where none fits.

    Args:
        source: the file.
        edits: the edits, by line.
    """
    import libcst as cst
    from libcst.metadata import MetadataWrapper

    wrapper = MetadataWrapper(cst.parse_module(source))
    editor = _editor(edits)
    made = wrapper.visit(editor)
    return made.bytes, list(dict.fromkeys(editor.done))


def _editor(edits: Sequence[Edit]):
    import libcst as cst
    import libcst.matchers as m
    from libcst.metadata import PositionProvider

    class Editor(cst.CSTTransformer):
        METADATA_DEPENDENCIES = (PositionProvider,)

        def __init__(self) -> None:
            super().__init__()
            self.done: list[Edit] = []
            self.renaming: list[Edit | None] = []

        def lines(self, node: cst.CSTNode) -> range:
            found: Any = self.get_metadata(PositionProvider, node)
            return range(found.start.line, found.end.line + 1)

        def at(self, node: cst.CSTNode, *kinds: Kind) -> Edit | None:
            span = self.lines(node)
            return next((e for e in edits if e.kind in kinds and e.line in span), None)

        def visit_ClassDef(self, node: cst.ClassDef) -> None:  # noqa: N802 - LibCST's
            self.renaming.append(self.at(node, "rename"))

        def leave_ClassDef(  # noqa: N802 - LibCST's
            self, original_node: cst.ClassDef, updated_node: cst.ClassDef
        ) -> cst.ClassDef:
            del original_node
            self.renaming.pop()
            return updated_node

        def leave_FunctionDef(  # noqa: N802 - LibCST's
            self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef
        ) -> cst.FunctionDef:
            edit = self.at(original_node, "rename")
            if edit is None or original_node.name.value != edit.name:
                return updated_node
            self.done.append(edit)
            return updated_node.with_changes(name=cst.Name(edit.new))

        def leave_Attribute(  # noqa: N802 - LibCST's
            self, original_node: cst.Attribute, updated_node: cst.Attribute
        ) -> cst.Attribute:
            edit = self.renaming[-1] if self.renaming else None
            own = m.Name("self") | m.Call(func=m.Name("super"))
            if (
                edit is None
                or original_node.attr.value != edit.name
                or not m.matches(original_node.value, own)
            ):
                return updated_node
            return updated_node.with_changes(attr=cst.Name(edit.new))

        def leave_Expr(  # noqa: N802 - LibCST's
            self, original_node: cst.Expr, updated_node: cst.Expr
        ) -> cst.Expr | cst.Assign:
            edit = self.at(original_node, "append", "assign")
            call = updated_node.value
            if (
                edit is None
                or not isinstance(call, cst.Call)
                or not isinstance(call.func, cst.Attribute)
                or call.func.attr.value != "insert_child_to_cell"
                or len(call.args) != 2
                or any(a.keyword or a.star for a in call.args)
            ):
                return updated_node
            self.done.append(edit)
            name, cell = call.args
            if edit.kind == "append":
                func = call.func.with_changes(attr=cst.Name("append"))
                return updated_node.with_changes(value=call.with_changes(func=func, args=[_last(cell)]))
            text = name.value.evaluated_value if isinstance(name.value, cst.SimpleString) else None
            if isinstance(text, str) and text.isidentifier():
                target = cst.Attribute(call.func.value, cst.Name(text))
                return cst.Assign([cst.AssignTarget(target)], cell.value, updated_node.semicolon)
            owner = cst.Arg(call.func.value, comma=cst.Comma(whitespace_after=cst.SimpleWhitespace(" ")))
            made = call.with_changes(func=cst.Name("setattr"), args=[owner, name, _last(cell)])
            return updated_node.with_changes(value=made)

        def leave_Assign(  # noqa: N802 - LibCST's
            self, original_node: cst.Assign, updated_node: cst.Assign
        ) -> cst.Assign:
            edit = self.at(original_node, "wrap")
            target = original_node.targets[0].target
            if edit is None or not m.matches(
                target, m.Attribute(value=m.Name("self"), attr=m.Name(edit.name))
            ):
                return updated_node
            self.done.append(edit)
            value = updated_node.value
            return updated_node.with_changes(value=cst.Call(cst.parse_expression(edit.new), [cst.Arg(value)]))

    def _last(argument: cst.Arg) -> cst.Arg:
        """The argument as the last one of a call: without the comma where it stood on the call's line."""
        return argument.with_changes(comma=cst.MaybeSentinel.DEFAULT)

    return Editor()
