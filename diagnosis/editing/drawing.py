"""Statements that draw a parameter's first values: one that is there changed, or one put behind a layer.

This module is imported where a file is edited, as it loads LibCST.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst
import libcst.matchers as m

if TYPE_CHECKING:
    from .edits import Edit


def drawing(call: cst.Call, edit: Edit) -> cst.Call | None:
    """Return a call that draws from another law: ``nn.init.…_(tensor)`` or an ``initializer(…)``.

    Returns:
        The call with everything else as it was; None where it is written in no such way.
    """
    new = cst.parse_expression(edit.new)
    laws = m.findall(new, m.Call(func=m.Name("initializer")))
    if laws:
        inner = m.findall(call, m.Call(func=m.Name("initializer")))
        if len(inner) != 1:
            return None
        old, law = cst.ensure_type(inner[0], cst.Call), cst.ensure_type(laws[0], cst.Call).args[0].value
        given = next((a for a in old.args if a.keyword is None or a.keyword.value == "init"), None)
        changed = None if given is None else call.with_deep_changes(given, value=law)
        return changed if isinstance(changed, cst.Call) else None
    if not isinstance(new, cst.Call) or not m.matches(call.func, m.Attribute(value=_INIT)) or not call.args:
        return None
    name = cst.ensure_type(new.func, cst.Attribute).attr
    func = cst.ensure_type(call.func, cst.Attribute).with_changes(attr=name)
    first = call.args[0].with_changes(comma=new.args[0].comma)
    return call.with_changes(func=func, args=[first, *new.args[1:]])


_INIT = m.Name("init") | m.Attribute(attr=m.Name("init"))


def following(assignment: cst.Assign, edit: Edit) -> cst.SimpleStatementLine | None:
    """Return the statement that draws a parameter of an assigned layer; None without a single name."""
    made = assignment.value
    if len(assignment.targets) != 1 or not isinstance(made, cst.Call):
        return None
    layer, package = assignment.targets[0].target, made.func
    if not isinstance(layer, (cst.Name, cst.Attribute)) or not isinstance(package, cst.Attribute):
        return None
    draw = cst.ensure_type(cst.parse_expression(edit.new), cst.Call)
    tensor = cst.ensure_type(draw.args[0].value, cst.Attribute).with_changes(value=layer)
    name = cst.ensure_type(draw.func, cst.Attribute).attr
    func = cst.Attribute(cst.Attribute(package.value, cst.Name("init")), name)
    args = [draw.args[0].with_changes(value=tensor), *draw.args[1:]]
    return cst.SimpleStatementLine([cst.Expr(draw.with_changes(func=func, args=args))])
