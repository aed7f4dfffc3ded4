"""Names for Parameters that are made without one, in a list or a comprehension.

This module is imported where a file is edited, as it loads LibCST.
"""

from __future__ import annotations

import libcst as cst
import libcst.matchers as m

_PARAMETER = m.Call(func=m.Name("Parameter") | m.Attribute(attr=m.Name("Parameter")))


def named(value: cst.BaseExpression, stem: str) -> cst.BaseExpression | None:
    """Return an attribute's value with a name for each Parameter in it: the stem and its number.

    Args:
        value: a list or tuple of calls of `Parameter`, or a comprehension over a range; in a call or bare.
        stem: the attribute's name.

    Returns:
        None where it is written otherwise, or one of them has a name.
    """
    if isinstance(value, cst.Call) and value.args:
        inner = named(value.args[0].value, stem)
        return None if inner is None else value.with_deep_changes(value.args[0], value=inner)
    if isinstance(value, (cst.List, cst.Tuple)):
        if not value.elements or not all(_is_nameless(e.value) for e in value.elements):
            return None
        elements = [
            e.with_changes(value=_with_name(cst.ensure_type(e.value, cst.Call), f'"{stem}{i}"'))
            for i, e in enumerate(value.elements)
        ]
        return value.with_changes(elements=elements)
    if not isinstance(value, (cst.ListComp, cst.GeneratorExp)) or not _is_nameless(value.elt):
        return None
    loop = value.for_in
    counts = m.matches(loop.iter, m.Call(func=m.Name("range"))) and loop.inner_for_in is None
    if not counts or not isinstance(loop.target, cst.Name):
        return None
    call, counter = cst.ensure_type(value.elt, cst.Call), loop.target.value
    if counter == "_":
        counter = next(n for n in ("i", "n", "number") if not m.findall(call, m.Name(n)))
    text = f'f"{stem}{{{counter}}}"'
    return value.with_changes(elt=_with_name(call, text), for_in=loop.with_changes(target=cst.Name(counter)))


def _is_nameless(value: cst.BaseExpression) -> bool:
    if not isinstance(value, cst.Call) or not m.matches(value, _PARAMETER) or any(a.star for a in value.args):
        return False
    return len(value.args) > 0 and not any(
        at == 1 if a.keyword is None else a.keyword.value == "name" for at, a in enumerate(value.args)
    )


def _with_name(call: cst.Call, text: str) -> cst.Call:
    tight = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
    name = cst.Arg(cst.parse_expression(text), cst.Name("name"), tight)
    comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    *others, last = call.args
    return call.with_changes(args=[*others, last.with_changes(comma=comma), name])
