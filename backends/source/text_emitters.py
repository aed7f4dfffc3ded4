"""Emitters that users write as text: an expression in which ``{0}`` is the first operand."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable

from .emitting import CallEmitter, View
from .expressions import ANY, ATOM, Expression, Part

_SLOT = re.compile(r"\{(\d+)\}")
"""An operand in the text."""


TextEmitter = Callable[[View], "str | Expression"]
"""A user's emitter."""


def text_emitter(function: TextEmitter) -> CallEmitter:
    """Return the emitter of a function that returns text, or an expression."""

    def emit(view: View) -> Expression:
        found = function(view)
        if not isinstance(found, str):
            return found
        pieces = _SLOT.split(found)
        parts: list[Part] = [
            view.tensor(int(piece), ATOM) if at % 2 else piece for at, piece in enumerate(pieces)
        ]
        body = ast.parse(_SLOT.sub("x", found), mode="eval").body
        is_atom = isinstance(body, (ast.Call, ast.Name, ast.Attribute, ast.Subscript))
        return Expression(tuple(parts), level=ATOM if is_atom else ANY)

    return emit
