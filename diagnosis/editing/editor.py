"""The edits of a file, made in its syntax tree.

This module is imported where a file is edited, as it loads LibCST.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import libcst as cst
import libcst.matchers as m
from libcst.metadata import PositionProvider

from .arguments import as_last, with_argument
from .drawing import drawing, following
from .naming import named

if TYPE_CHECKING:
    from .edits import Edit, Kind, Span


class Editor(cst.CSTTransformer):
    """Makes edits in a file's syntax tree.

    Args:
        edits: the edits; their spans count characters.

    Attributes:
        done: the edits made.
    """

    METADATA_DEPENDENCIES = (PositionProvider,)

    def __init__(self, edits: Sequence[Edit]) -> None:
        super().__init__()
        self.done: list[Edit] = []
        self._edits = edits
        self._renaming: list[Edit | None] = []

    def _lines(self, node: cst.CSTNode) -> range:
        found: Any = self.get_metadata(PositionProvider, node)
        return range(found.start.line, found.end.line + 1)

    def _at(self, node: cst.CSTNode, *kinds: Kind) -> Edit | None:
        span = self._lines(node)
        return next((e for e in self._edits if e.kind in kinds and e.line in span), None)

    def visit_ClassDef(self, node: cst.ClassDef) -> None:  # noqa: N802 - LibCST's
        """Note which method of the class gets another name."""
        self._renaming.append(self._at(node, "rename"))

    def leave_ClassDef(  # noqa: N802 - LibCST's
        self, original_node: cst.ClassDef, updated_node: cst.ClassDef
    ) -> cst.ClassDef:
        """Forget the method of the class around."""
        del original_node
        self._renaming.pop()
        return updated_node

    def leave_FunctionDef(  # noqa: N802 - LibCST's
        self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef
    ) -> cst.FunctionDef:
        """Put statements last in a constructor, or rename a method."""
        lines = self._lines(original_node)
        last = [e for e in self._edits if e.kind == "last" and e.line in lines]
        body = updated_node.body
        if last and original_node.name.value == "__init__" and isinstance(body, cst.IndentedBlock):
            self.done += last
            statements = [line for e in last for line in cst.parse_module(e.new).body]
            return updated_node.with_changes(body=body.with_changes(body=[*body.body, *statements]))
        edit = self._at(original_node, "rename")
        if edit is None or original_node.name.value != edit.name:
            return updated_node
        self.done.append(edit)
        return updated_node.with_changes(name=cst.Name(edit.new))

    def leave_Attribute(  # noqa: N802 - LibCST's
        self, original_node: cst.Attribute, updated_node: cst.Attribute
    ) -> cst.Attribute:
        """Rename a method where its class reads it, by `self` or `super()`."""
        edit = self._renaming[-1] if self._renaming else None
        own = m.Name("self") | m.Call(func=m.Name("super"))
        if edit is None or original_node.attr.value != edit.name or not m.matches(original_node.value, own):
            return updated_node
        return updated_node.with_changes(attr=cst.Name(edit.new))

    def leave_Expr(  # noqa: N802 - LibCST's
        self, original_node: cst.Expr, updated_node: cst.Expr
    ) -> cst.Expr | cst.Assign:
        """Write `insert_child_to_cell` as `append`, an assignment or `setattr`."""
        edit = self._at(original_node, "append", "assign")
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
            return updated_node.with_changes(value=call.with_changes(func=func, args=[as_last(cell)]))
        text = name.value.evaluated_value if isinstance(name.value, cst.SimpleString) else None
        if isinstance(text, str) and text.isidentifier():
            target = cst.Attribute(call.func.value, cst.Name(text))
            return cst.Assign([cst.AssignTarget(target)], cell.value, updated_node.semicolon)
        owner = cst.Arg(call.func.value, comma=cst.Comma(whitespace_after=cst.SimpleWhitespace(" ")))
        made = call.with_changes(func=cst.Name("setattr"), args=[owner, name, as_last(cell)])
        return updated_node.with_changes(value=made)

    def leave_Assign(  # noqa: N802 - LibCST's
        self, original_node: cst.Assign, updated_node: cst.Assign
    ) -> cst.Assign:
        """Name the Parameters that an attribute's value makes, or wrap that value."""
        target = original_node.targets[0].target
        for kind in ("name", "wrap"):
            edit = self._at(original_node, kind)
            if edit is None or not m.matches(
                target, m.Attribute(value=m.Name("self"), attr=m.Name(edit.name))
            ):
                continue
            value: cst.BaseExpression | None = updated_node.value
            if kind == "name":
                value = named(updated_node.value, edit.name)
            else:
                value = cst.Call(cst.parse_expression(edit.new), [cst.Arg(updated_node.value)])
            if value is not None:
                self.done.append(edit)
                updated_node = updated_node.with_changes(value=value)
        return updated_node

    def _span(self, node: cst.CSTNode) -> Span:
        found: Any = self.get_metadata(PositionProvider, node)
        return (found.start.line, found.start.column, found.end.line, found.end.column)

    def on_leave(
        self, original_node: cst.CSTNodeT, updated_node: cst.CSTNodeT
    ) -> cst.CSTNodeT | cst.RemovalSentinel | cst.FlattenSentinel[cst.CSTNodeT]:
        """Replace an expression by another one, in its parentheses."""
        left = super().on_leave(original_node, updated_node)
        if not isinstance(original_node, cst.BaseExpression) or not isinstance(left, cst.BaseExpression):
            return left
        first, begin, last, end = self._span(original_node)
        span = (first, begin + len(original_node.lpar), last, end - len(original_node.rpar))
        for edit in self._edits:
            if edit.kind != "expression" or edit.span != span or edit in self.done:
                continue
            new = cst.parse_expression(edit.new)
            if original_node.lpar:
                new = new.with_changes(lpar=original_node.lpar, rpar=original_node.rpar)
            self.done.append(edit)
            return cast("Any", new)
        return left

    def leave_Call(  # noqa: N802 - LibCST's
        self, original_node: cst.Call, updated_node: cst.Call
    ) -> cst.Call:
        """Give a call another argument, or let it draw from another law."""
        span = self._span(original_node)
        for edit in self._edits:
            if edit.kind in ("argument", "draw") and edit.span == span:
                given = (with_argument if edit.kind == "argument" else drawing)(updated_node, edit)
                if given is not None:
                    self.done.append(edit)
                    updated_node = given
        return updated_node

    def leave_SimpleStatementLine(  # noqa: N802 - LibCST's
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine | cst.FlattenSentinel[cst.SimpleStatementLine] | cst.RemovalSentinel:
        """Put statements before or behind an assignment, or delete it."""
        first = original_node.body[0]
        lines = self._lines(original_node)
        before = [edit for edit in self._edits if edit.kind == "before" and edit.line in lines]
        if before:
            self.done += before
            added = [line for edit in before for line in cst.parse_module(edit.new).body]
            added[0] = added[0].with_changes(leading_lines=updated_node.leading_lines)
            here = updated_node.with_changes(leading_lines=())
            return cst.FlattenSentinel(cast("Any", [*added, here]))
        if len(original_node.body) != 1 or not isinstance(first, cst.Assign):
            return updated_node
        unwanted = self._at(original_node, "delete")
        if unwanted is not None:
            self.done.append(unwanted)
            return cst.RemoveFromParent()
        span = self._span(first.value)
        behind: list[cst.SimpleStatementLine] = []
        for edit in self._edits:
            if edit.kind == "after" and edit.span == span:
                statement = following(first, edit)
                if statement is not None:
                    self.done.append(edit)
                    behind.append(statement)
            elif edit.kind == "behind" and edit.line in lines:
                statement = cst.parse_statement(edit.new)
                if isinstance(statement, cst.SimpleStatementLine):
                    self.done.append(edit)
                    behind.append(statement)
        return cst.FlattenSentinel([updated_node, *behind]) if behind else updated_node
