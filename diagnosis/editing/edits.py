"""The kinds of edits: a method's name, a registration, a list of layers, the arguments of a call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, cast

if TYPE_CHECKING:
    import libcst as cst

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

    wrapper = MetadataWrapper(cst.parse_module(source))
    lines = wrapper.module.code.splitlines()
    editor = _editor([_in_characters(e, lines) if e.kind in _OF_SPANS else e for e in edits])
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


def _editor(edits: Sequence[Edit]):
    import libcst as cst
    import libcst.matchers as m
    from libcst.metadata import PositionProvider

    from .drawing import drawing, following
    from .naming import named

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
            lines = self.lines(original_node)
            last = [e for e in edits if e.kind == "last" and e.line in lines]
            body = updated_node.body
            if last and original_node.name.value == "__init__" and isinstance(body, cst.IndentedBlock):
                self.done += last
                statements = [line for e in last for line in cst.parse_module(e.new).body]
                return updated_node.with_changes(body=body.with_changes(body=[*body.body, *statements]))
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
            target = original_node.targets[0].target
            for kind in ("name", "wrap"):
                edit = self.at(original_node, kind)
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

        def span(self, node: cst.CSTNode) -> Span:
            found: Any = self.get_metadata(PositionProvider, node)
            return (found.start.line, found.start.column, found.end.line, found.end.column)

        def on_leave(
            self, original_node: cst.CSTNodeT, updated_node: cst.CSTNodeT
        ) -> cst.CSTNodeT | cst.RemovalSentinel | cst.FlattenSentinel[cst.CSTNodeT]:
            left = super().on_leave(original_node, updated_node)
            if not isinstance(original_node, cst.BaseExpression) or not isinstance(left, cst.BaseExpression):
                return left
            first, begin, last, end = self.span(original_node)
            span = (first, begin + len(original_node.lpar), last, end - len(original_node.rpar))
            for edit in edits:
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
            span = self.span(original_node)
            for edit in edits:
                if edit.kind in ("argument", "draw") and edit.span == span:
                    given = (_given if edit.kind == "argument" else drawing)(updated_node, edit)
                    if given is not None:
                        self.done.append(edit)
                        updated_node = given
            return updated_node

        def leave_SimpleStatementLine(  # noqa: N802 - LibCST's
            self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
        ) -> cst.SimpleStatementLine | cst.FlattenSentinel[cst.SimpleStatementLine] | cst.RemovalSentinel:
            first = original_node.body[0]
            lines = self.lines(original_node)
            before = [edit for edit in edits if edit.kind == "before" and edit.line in lines]
            if before:
                self.done += before
                added = [line for edit in before for line in cst.parse_module(edit.new).body]
                added[0] = added[0].with_changes(leading_lines=updated_node.leading_lines)
                here = updated_node.with_changes(leading_lines=())
                return cst.FlattenSentinel(cast("Any", [*added, here]))
            if len(original_node.body) != 1 or not isinstance(first, cst.Assign):
                return updated_node
            unwanted = self.at(original_node, "delete")
            if unwanted is not None:
                self.done.append(unwanted)
                return cst.RemoveFromParent()
            span = self.span(first.value)
            behind: list[cst.SimpleStatementLine] = []
            for edit in edits:
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

    def _given(call: cst.Call, edit: Edit) -> cst.Call | None:
        """Return a call with a replaced or an added last argument; None for `**options`."""
        value = cst.parse_expression(edit.new)
        present = _argument(call, edit.name, edit.position)
        other = _argument(call, *edit.instead)
        behind = [] if other is None else call.args[[a is other for a in call.args].index(True) + 1 :]
        movable = other is not None and (other.keyword is not None or all(a.keyword for a in behind))
        if present is not None:
            args = [a.with_changes(value=value) if a is present else a for a in call.args]
            if movable:
                kept = [new for old, new in zip(call.args, args, strict=True) if old is not other]
                args = [*kept[:-1], kept[-1] if behind else _last(kept[-1])]
            return call.with_changes(args=args)
        if other is not None:
            named = _keyword(call, edit.name, value).with_changes(comma=other.comma)
            return (
                call.with_changes(args=[named if a is other else a for a in call.args]) if movable else None
            )
        if any(a.star for a in call.args):
            return None
        return call.with_changes(args=[*_before_another(call), _keyword(call, edit.name, value)])

    def _argument(call: cst.Call, name: str, position: int) -> cst.Arg | None:
        """Return the argument of a call that has a name, or else a place among those without keyword."""
        found = next((a for a in call.args if a.keyword is not None and a.keyword.value == name), None)
        starred = next((at for at, a in enumerate(call.args) if a.star), len(call.args))
        bare = [a for a in call.args[:starred] if a.keyword is None]
        return bare[position] if found is None and 0 <= position < len(bare) else found

    def _keyword(call: cst.Call, name: str, value: cst.BaseExpression) -> cst.Arg:
        tight = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
        last = call.args[-1] if call.args else None
        comma = cst.MaybeSentinel.DEFAULT if last is None else last.comma
        return cst.Arg(value, cst.Name(name), tight, comma)

    def _before_another(call: cst.Call) -> list[cst.Arg]:
        """Return the arguments of a call, with what stands between two of them after the last one."""
        if not call.args:
            return []
        *others, last = call.args
        between = others[-1].comma if others else cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
        if not others and isinstance(last.comma, cst.Comma):  # one argument a line
            between = cst.Comma(whitespace_after=call.whitespace_before_args)
        return [*others, last.with_changes(comma=between)]

    def _last(argument: cst.Arg) -> cst.Arg:
        """Return the argument as a call's last one: without the comma where it stood on the call's line."""
        return argument.with_changes(comma=cst.MaybeSentinel.DEFAULT)

    return Editor()
