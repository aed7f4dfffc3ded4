"""The arguments of a call: one replaced, or one added in the manner of the others.

This module is imported where a file is edited, as it loads LibCST.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

if TYPE_CHECKING:
    from .edits import Edit


def with_argument(call: cst.Call, edit: Edit) -> cst.Call | None:
    """Return a call with an argument replaced or added as its last; None for a call with `**options`."""
    value = cst.parse_expression(edit.new)
    present = _argument(call, edit.name, edit.position)
    other = _argument(call, *edit.instead)
    behind = [] if other is None else call.args[[a is other for a in call.args].index(True) + 1 :]
    movable = other is not None and (other.keyword is not None or all(a.keyword for a in behind))
    if present is not None:
        args = [a.with_changes(value=value) if a is present else a for a in call.args]
        if movable:
            kept = [new for old, new in zip(call.args, args, strict=True) if old is not other]
            args = [*kept[:-1], kept[-1] if behind else as_last(kept[-1])]
        return call.with_changes(args=args)
    if other is not None:
        named = _keyword(call, edit.name, value).with_changes(comma=other.comma)
        return call.with_changes(args=[named if a is other else a for a in call.args]) if movable else None
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


def as_last(argument: cst.Arg) -> cst.Arg:
    """Return the argument as a call's last one: without the comma where it stood on the call's line."""
    return argument.with_changes(comma=cst.MaybeSentinel.DEFAULT)
