"""All emitters, merged by name from the family files."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TypeVar

from ....ir import Graph, Operator, Value
from ....ir.analysis.settings import SETTINGS
from ...source.emitting import (
    Call,
    CallEmitter,
    EmitterTable,
    Expression,
    NnClass,
    NnLayer,
    Refused,
    Scope,
    View,
)
from ...source.expressions import Access, Part, Use, call, method
from . import (
    activation,
    attention,
    control_flow,
    conv,
    einsum,
    fourier,
    indexing,
    linear,
    linear_algebra,
    loss,
    math,
    norm,
    onnx_recurrent,
    pool,
    random,
    recurrent,
    reduce,
    resize,
    shape,
    special,
    stub,
    telling,
)
from .initializers import ms_dtype
from .run_time.operators import TABLE as RUN_TIME

T = TypeVar("T")

TABLE = EmitterTable.merge(
    activation.TABLE,
    attention.TABLE,
    control_flow.TABLE,
    conv.TABLE,
    einsum.TABLE,
    fourier.TABLE,
    indexing.TABLE,
    linear.TABLE,
    linear_algebra.TABLE,
    loss.TABLE,
    math.TABLE,
    norm.TABLE,
    onnx_recurrent.TABLE,
    pool.TABLE,
    random.TABLE,
    recurrent.TABLE,
    reduce.TABLE,
    resize.TABLE,
    shape.TABLE,
    special.TABLE,
    stub.TABLE,
    telling.TABLE,
)
"""Every IR operator that can be written as MindSpore source: the tables of the family files, merged."""


def emit_layer(view: View) -> NnLayer:
    """Emit the operator as a layer.

    Raises:
        Refused: when it has none, or the emitter does not cover this use.
    """
    layer = _emitter(TABLE.layers, view)(view)
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
    try:
        return _emit_call(TABLE.calls, view)
    except Refused:
        if view.operator.qualified_name not in RUN_TIME.calls or not _has_computed_settings(view):
            raise
    return _emit_call(RUN_TIME.calls, view)


def _has_computed_settings(view: View) -> bool:
    """Whether a run computes axes, sizes or counts of the operator."""
    slots = [slot for slot in SETTINGS.get(view.operator.op_type, ()) if view.has(slot)]
    return any(view.constant(slot) is None for slot in slots)


def _emit_call(rows: Mapping[str, CallEmitter], view: View) -> Expression:
    """Emit by one table; sizes become tensors where the emitter has no place for them."""
    emit = _emitter(rows, view)
    slots = [slot for slot in range(len(view.operands)) if view.host(slot)]
    as_tensors = View(view.graph, view.operator, _SizesAsTensors(view.graph, view.scope))
    if not all(slot in _SIZE_SLOTS.get(view.operator.op_type, ()) for slot in slots):
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


_ON_SIZES = {"Shape", "Size", "Gather", "Squeeze", "Unsqueeze", "Slice", "Concat", "Cast", "Identity"} | {
    *("Add", "Sub", "Mul", "Div", "Mod", "Max", "Min")
}
"""Operators whose emitters write Python arithmetic if all operands are sizes."""

_SIZE_SLOTS: dict[str, Collection[int]] = {
    **dict.fromkeys(_ON_SIZES, range(1 << 16)),
    **dict.fromkeys(("Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual"), (0, 1)),
    **dict.fromkeys(("Reshape", "Tile", "TopK", "CumSum"), (1,)),
    **dict.fromkeys(("ConstantOfShape", "Neg", "SizeTensor"), (0,)),
    **dict.fromkeys(("Expand", "Range"), (0, 1, 2)),
}
"""Operator -> its operands that may be sizes, numbers and tuples of Python."""


class _SizesAsTensors:
    """A scope in which what is a size elsewhere is a tensor."""

    def __init__(self, graph: Graph, scope: Scope) -> None:
        self.graph, self.scope, self.explicit = graph, scope, scope.explicit

    def part(self, value: Value, level: int) -> Part:
        return self._made(value) or self.scope.part(value, level)

    def tensor(self, value: Value, level: int) -> Part:
        return self._made(value) or self.scope.tensor(value, level)

    def _made(self, value: Value) -> Part | None:
        type_ = self.graph.type_of(value)
        if not self.scope.host(value) or type_ is None:
            return None
        if self.scope.host(value) == "tuple" and _is_computed(self.graph, value):
            # in graph mode `ms.Tensor` of sizes that are variables has no element type
            return method(call("ops.tuple_to_array", self.scope.part(value, 0)), "astype", _INT64)
        return call("ms.Tensor", self.scope.part(value, 0), Expression((ms_dtype(type_.dtype),)))

    def attribute(self, name: str, constructor: Part) -> Access:
        return self.scope.attribute(name, constructor)

    def function(self, name: str, constructor: Part) -> Access:
        return self.scope.function(name, constructor)

    def host(self, value: Value) -> str:  # noqa: ARG002 - none is a size here
        return ""

    def is_returned(self, value: Value) -> bool:
        return self.scope.is_returned(value)


_INT64 = Expression(("ms.int64",))


def _is_computed(graph: Graph, value: Value, depth: int = 8) -> bool:
    """Whether a size is one that only a run gives, not one of an input."""
    node = graph.producer(value)
    if not isinstance(node, Operator) or not depth:
        return False
    operands = [v for v in graph.operands(node.key) if v is not None]
    if node.op_type not in ("Shape", "Size"):
        return any(_is_computed(graph, v, depth - 1) for v in operands)
    shape = None if (known := graph.type_of(operands[0])) is None else known.shape
    return shape is None or None in shape


def is_size(graph: Graph, value: Value) -> bool:
    """Whether a value is written as Python's numbers: a shape, or what is computed from shapes alone."""
    return bool(_Probe(graph).host(value))


class _Probe:
    """A scope that only answers whether an operator can be emitted."""

    explicit = False

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def part(self, value: Value, level: int) -> Part:
        return Use(value, level)

    def tensor(self, value: Value, level: int) -> Part:
        return Use(value, level)

    def attribute(self, name: str, constructor: Part) -> Access:  # noqa: ARG002 - a probe declares nothing
        return Access((name,))

    function = attribute

    def is_returned(self, value: Value) -> bool:  # noqa: ARG002 - a probe has no classes
        return False

    def host(self, value: Value) -> str:
        """Return "int" or "tuple" for what will be a size or sizes, empty for a tensor."""
        type_ = self.graph.type_of(value)
        if type_ is None or type_.rank not in (0, 1) or not self._is_size(value):
            return ""
        return "tuple" if type_.rank else "int"

    def _is_size(self, value: Value, depth: int = 8) -> bool:
        node = self.graph.node(value.node)
        if not isinstance(node, Operator) or node.op_type not in _ON_SIZES or not depth:
            return False
        if node.op_type in ("Shape", "Size"):
            return True
        given = [v for v in self.graph.operands(node.key) if v and self.graph.constant_value(v) is None]
        return bool(given) and all(self._is_size(v, depth - 1) for v in given)


def can_emit(graph: Graph, operator: Operator) -> bool:
    """Whether the backend can write this operator as it stands."""
    view = View(graph, operator, _Probe(graph))
    for emit in (emit_call, emit_layer):
        try:
            emit(view)
        except Refused:
            continue
        return True
    return False
