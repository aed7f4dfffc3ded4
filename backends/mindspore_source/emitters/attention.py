"""Attention: MindSpore's whole layer where it is equal, else matrix products around a softmax."""

from __future__ import annotations

from ....frameworks.mindspore import MINDSPORE
from ....frameworks.record import is_same
from ....ir import Parameter
from ...source.emitters.layers import attention_layer
from ...source.emitting import (
    Argument,
    Call,
    EmitterTable,
    Expression,
    NnLayer,
    View,
)
from ...source.expressions import Helper, Part
from .initializers import construct, dtype_argument, law_of

TABLE = EmitterTable()


@TABLE.layer("regraft.MultiheadAttention")
def multihead_attention(view: View) -> NnLayer:
    """Emit nn.MultiheadAttention, if the module does nothing else (see the pass adopt-projections)."""
    return attention_layer(view, _build)


def _build(_: View, name: str, held: dict[str, Parameter], settings: dict[str, object]) -> Part:
    constructor = construct(name, **settings, dtype=dtype_argument(next(iter(held.values()))))
    laws = [(attribute, found) for attribute, p in held.items() if (found := _other_law(p, attribute))]
    return _redraw(constructor, laws) if laws else constructor


def _other_law(parameter: Parameter, name: str) -> Part | None:
    """Return a parameter's known initial distribution if it is not the layer's own, else None."""
    inner, _, attribute = name.rpartition(".")
    shape = parameter.data.shape
    own = MINDSPORE.default_law("Dense" if inner else "MultiheadAttention", attribute, shape, shape[:1] * 2)
    return None if is_same(parameter.initializer, own) else law_of(parameter)


def _redraw(constructor: Call, laws: list[tuple[str, Part]]) -> Call:
    parts: list[Part] = ["**{"]
    for name, found in laws:
        parts += [", "] * (len(parts) > 1) + [f'"{name}": ', found]
    return Call(Helper("redrawn"), (Argument("", constructor), Argument("", Expression((*parts, "}")))))
