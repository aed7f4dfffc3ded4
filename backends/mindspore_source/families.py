"""All emitters, merged by name from the family files."""

from __future__ import annotations

from ...ir import Graph, Operator, Value
from . import (
    activation,
    attention,
    conv,
    einsum,
    indexing,
    linear,
    math,
    norm,
    pool,
    recurrent,
    reduce,
    resize,
    shape,
)
from .emitting import EmitterTable, Expression, Layer, Refused, View
from .expressions import Part, Use

TABLE = EmitterTable.merge(
    [
        f.table
        for f in (
            activation,
            attention,
            conv,
            einsum,
            indexing,
            linear,
            math,
            norm,
            pool,
            recurrent,
            reduce,
            resize,
            shape,
        )
    ]
)


def emit_layer(view: View) -> Layer:
    """The operator as a layer.

    Raises:
        Refused: when it has none, or the emitter does not cover this use.
    """
    emitter = TABLE.layers.get(view.operator.qualified_name)
    if emitter is None:
        raise Refused
    return emitter(view)


def emit_call(view: View) -> Expression:
    """The operator as an expression.

    Raises:
        Refused: when it has none, or the emitter does not cover this use.
    """
    emitter = TABLE.calls.get(view.operator.qualified_name)
    if emitter is None:
        raise Refused
    return emitter(view)


class _Probe:
    """A scope that only answers whether an operator can be emitted."""

    explicit = False

    def part(self, value: Value, level: int) -> Part:
        return Use(value, level)

    def attribute(self, name: str, constructor: Part) -> str:  # noqa: ARG002 - a probe declares nothing
        return f"self.{name}"

    def host(self, value: Value) -> str:  # noqa: ARG002 - and computes nothing
        return ""


def can_emit(graph: Graph, operator: Operator) -> bool:
    """Whether the backend can write this operator as it stands."""
    view = View(graph, operator, _Probe())
    for emit in (emit_call, emit_layer):
        try:
            emit(view)
        except Refused:
            continue
        return True
    return False
