"""Emits operators by the tables of a dialect: as a layer, or as an expression."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from ...ir import Graph, Operator, Value
from ...ir.analysis.settings import SETTINGS
from .dialect import Dialect
from .emitting import CallEmitter, NnLayer, Refused, Scope, View
from .expressions import Access, Call, Expression, NnClass, Part, Use
from .sizes import SIZE_SLOTS, host_of, is_computed

T = TypeVar("T")


def emit_layer(view: View) -> NnLayer:
    """Emit the operator as a layer.

    Raises:
        Refused: when it has none, or the emitter does not cover this use.
    """
    layer = _emitter(view.scope.dialect.emitters.layers, view)(view)
    constructor, traits = layer.constructor, view.operator.traits
    if not isinstance(constructor, Call):
        return layer
    is_light = traits.activation or traits.normalisation or bool(traits.dropout)
    is_exchangeable = traits.activation and isinstance(constructor.callee, NnClass)
    return replace(
        layer, constructor=replace(constructor, is_light=is_light, is_exchangeable=is_exchangeable)
    )


def emit_call(view: View) -> Expression:
    """Emit the operator as an expression; settings that a run computes have emitters of their own.

    Raises:
        Refused: when it has none, or the emitter does not cover this use.
    """
    dialect = view.scope.dialect
    try:
        return _emit_call(dialect.emitters.calls, view)
    except Refused:
        if view.operator.qualified_name not in dialect.computed.calls or not _has_computed_settings(view):
            raise
    return _emit_call(dialect.computed.calls, view)


def _has_computed_settings(view: View) -> bool:
    """Whether a run computes axes, sizes or counts of the operator."""
    slots = [slot for slot in SETTINGS.get(view.operator.op_type, ()) if view.has(slot)]
    return any(view.constant(slot) is None for slot in slots)


def _emit_call(rows: Mapping[str, CallEmitter], view: View) -> Expression:
    """Emit by one table; sizes become tensors where the emitter has no place for them."""
    emit = _emitter(rows, view)
    slots = [slot for slot in range(len(view.operands)) if view.host(slot)]
    as_tensors = View(view.graph, view.operator, _SizesAsTensors(view.graph, view.scope))
    if not all(slot in SIZE_SLOTS.get(view.operator.op_type, ()) for slot in slots):
        return emit(as_tensors)
    try:
        return emit(view)
    except Refused:
        if not slots:
            raise
    return emit(as_tensors)


def _emitter(rows: Mapping[str, T], view: View) -> T:
    emitter = rows.get(view.operator.qualified_name)
    if emitter is None:
        raise Refused
    return emitter


class _SizesAsTensors:
    """A scope in which what is a size elsewhere is a tensor."""

    def __init__(self, graph: Graph, scope: Scope) -> None:
        self.graph, self.scope = graph, scope
        self.dialect, self.explicit = scope.dialect, scope.explicit

    def part(self, value: Value, level: int) -> Part:
        return self._made(value) or self.scope.part(value, level)

    def tensor(self, value: Value, level: int) -> Part:
        return self._made(value) or self.scope.tensor(value, level)

    def _made(self, value: Value) -> Part | None:
        type_, host, make = self.graph.type_of(value), self.scope.host(value), self.dialect.size_tensor
        if not host or type_ is None:
            return None
        if make is None:
            raise Refused
        return make(self.scope.part(value, 0), host, type_.dtype, is_computed(self.graph, value))

    def attribute(self, name: str, constructor: Part) -> Access:
        return self.scope.attribute(name, constructor)

    def function(self, name: str, constructor: Part) -> Access:
        return self.scope.function(name, constructor)

    def host(self, value: Value) -> str:  # noqa: ARG002 - none is a size here
        return ""

    def is_returned(self, value: Value) -> bool:
        return self.scope.is_returned(value)


class Probe:
    """A scope that only answers whether an operator can be emitted."""

    explicit = False

    def __init__(self, graph: Graph, dialect: Dialect) -> None:
        self.graph, self.dialect = graph, dialect

    def part(self, value: Value, level: int) -> Part:
        """Return a use of the value."""
        return Use(value, level)

    def tensor(self, value: Value, level: int) -> Part:
        """Return a use of the value."""
        return Use(value, level)

    def attribute(self, name: str, constructor: Part) -> Access:  # noqa: ARG002 - a probe declares nothing
        """Return an attribute that nobody declares."""
        return Access((name,))

    function = attribute

    def is_returned(self, value: Value) -> bool:  # noqa: ARG002 - a probe has no classes
        """Return that no class returns it."""
        return False

    def host(self, value: Value) -> str:
        """Return "int" or "tuple" for what will be a size or sizes, empty for a tensor."""
        return host_of(self.graph, value)


def can_emit(dialect: Dialect, graph: Graph, operator: Operator) -> bool:
    """Whether a dialect can write an operator as it stands."""
    return bool(form_of(dialect, graph, operator))


def form_of(dialect: Dialect, graph: Graph, operator: Operator) -> str:
    """Return "call" or "layer" for the form in which a dialect writes an operator; empty where it has none.

    The operator remembers it while the graph stays as it is, since several passes ask.
    """
    state = _state_of(dialect, graph, operator)
    if operator.form is not None and operator.form[0] == state:
        return operator.form[1]
    found, view = "", View(graph, operator, Probe(graph, dialect))
    for form, emit in (("call", emit_call), ("layer", emit_layer)):
        try:
            emit(view)
        except Refused:
            continue
        found = form
        break
    operator.form = (state, found)
    return found


def _state_of(dialect: Dialect, graph: Graph, operator: Operator) -> object:
    """Return what decides about the form of an operator: equal states have one form."""
    operands = tuple(None if v is None else graph.type_of(v) for v in graph.operands(operator.key))
    outputs = tuple((t, graph.is_read(Value(operator.key, at))) for at, t in enumerate(operator.types))
    attributes = repr(sorted(operator.attributes.items()))
    return dialect, graph.flow, graph.flow.version, operator.qualified_name, attributes, operands, outputs
