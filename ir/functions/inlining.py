"""Puts the body that ONNX states for an operator in its place, in operators of our opset."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx

from ..analysis.sizes import Sizes
from ..analysis.small_constants import folded, numbers
from ..builder import Builder, replace_operator
from ..errors import InvalidGraphError
from ..graph import Graph
from ..inference import attribute_proto
from ..nodes import Operator, Value
from ..signatures import OPSET
from ..types import onnx_dtype
from .stated import (
    constant_array,
    has_function,
    nodes_without,
    plain_attribute,
    resolved_attributes,
    stated_function,
)


class _Unbuilt(Exception):  # noqa: N818 - a signal within this file
    """A body holds what cannot be said here: a loop, or a choice that only a run makes."""


def expand_function(graph: Graph, key: int) -> bool:
    """Replace an operator by its body, what follows from constants and static shapes computed.

    The body is of the newest opset up to ours that has one; tests/ir/test_functions.py holds every such body
    to be one of our opset too.

    Args:
        graph: that has the operator.
        key: of the operator.

    Returns:
        Whether it was; an operator is left alone that has no body, or one with a Loop or an If of unknown
        condition.
    """
    operator = graph.operator(key)
    if operator.domain or operator.subgraphs() or not has_function(operator.op_type, OPSET):
        return False
    operands = graph.operands(key)
    node = _as_node(graph, operator, operands)
    types = [None if value is None else graph.type_of(value) for value in operands]
    function = stated_function(node, OPSET, types)
    if function is None:
        return False
    first = graph.next_key
    builder = Builder(graph, call=operator.call, location=operator.location)
    body = _Body(builder, function, operands, {a.name: a for a in node.attribute})
    try:
        body.build(nodes_without(function.node, body.absent))
        pairs = zip(function.output, node.output, strict=False)
        outputs = [body.values[name] if given else None for name, given in pairs]
    except (_Unbuilt, InvalidGraphError):  # which a form has that the body does not cover
        for added in reversed([k for k in range(first, graph.next_key) if k in graph]):
            graph.remove(added)
        return False
    replace_operator(graph, key, [_own(builder, operator, value) for value in outputs])
    for added in reversed([k for k in range(first, graph.next_key) if k in graph]):
        ends = [Value(added, index) for index in range(len(graph.node(added).types))]
        if not any(graph.is_read(end) for end in ends):
            graph.remove(added)
    return True


def _as_node(graph: Graph, operator: Operator, operands: Sequence[Value | None]) -> onnx.NodeProto:
    """Return an operator as a node, which has no name for an output that nothing reads."""
    node = onnx.NodeProto(op_type=operator.op_type)
    node.input.extend("" if value is None else f"i{slot}" for slot, value in enumerate(operands))
    for index in range(len(operator.types)):
        value = Value(operator.key, index)
        node.output.append(f"o{index}" if graph.is_read(value) else "")
    while len(node.output) > 1 and not node.output[-1]:
        node.output.pop()
    specs = operator.signature.attributes
    for name, given in operator.attributes.items():
        node.attribute.append(attribute_proto(name, given, specs[name].kind))
    return node


def _own(builder: Builder, operator: Operator, value: Value | None) -> Value | None:
    """Return a result as a value of the body's own, where it is one that cannot be a result as well."""
    graph = builder.graph
    if value is None or value not in graph.operands(operator.key):
        return value
    if isinstance(graph.node(value.node), Operator) and not graph.is_output(value):
        return value
    with builder.inside(operator.call, operator.location):
        return builder.op("Identity", value)


def _is_idle(graph: Graph, node: onnx.NodeProto, operand: Value, attributes: dict[str, Any]) -> bool:
    """Whether a node gives back what it is given."""
    if node.op_type != "Cast":
        return node.op_type == "Identity"
    known = graph.type_of(operand)
    return known is not None and onnx_dtype(known.dtype) == attributes["to"]


class _Body:
    """A body while it is built.

    Args:
        builder: in the operator's place.
        function: the body.
        operands: of the operator.
        given: its attributes.
    """

    def __init__(
        self,
        builder: Builder,
        function: onnx.FunctionProto,
        operands: Sequence[Value | None],
        given: dict[str, onnx.AttributeProto],
    ) -> None:
        self.builder = builder
        self.given = {a.name: a for a in function.attribute_proto} | given
        pairs = zip(function.input, operands, strict=False)
        self.values = {name: value for name, value in pairs if value is not None}
        self.sizes = Sizes(builder.graph)
        self.absent = {name for name in function.input if name not in self.values}

    def build(self, nodes: Any) -> None:
        """Add the nodes, one after the other."""
        for node in nodes:
            protos = resolved_attributes(node, self.given)
            attributes = {name: plain_attribute(proto) for name, proto in protos.items()}
            if node.op_type == "Constant":
                outputs = [self._constant(attributes)]
            elif node.op_type == "If":
                outputs = self._branch(node, attributes)
            elif any(isinstance(value, onnx.GraphProto) for value in attributes.values()):
                raise _Unbuilt
            else:
                outputs = self._operator(node, attributes)
            self.values.update(zip(node.output, outputs, strict=False))

    def _constant(self, attributes: dict[str, Any]) -> Value:
        found = constant_array(attributes)
        if found is None:
            raise _Unbuilt
        return self.builder.graph.add_constant(found)

    def _branch(self, node: onnx.NodeProto, attributes: dict[str, Any]) -> list[Value]:
        """Add the branch that is taken."""
        condition = self.builder.graph.constant_value(self.values[node.input[0]])
        if condition is None:
            raise _Unbuilt
        taken = attributes["then_branch" if condition.all() else "else_branch"]
        self.build(nodes_without(taken.node, self.absent))
        return [self.values[output.name] for output in taken.output]

    def _operator(self, node: onnx.NodeProto, attributes: dict[str, Any]) -> list[Value]:
        builder = self.builder
        operands = [self.values[name] if name else None for name in node.input]
        first = operands[0] if operands else None
        if first is not None and _is_idle(builder.graph, node, first, attributes):
            return [first]
        outputs = builder.ops(node.op_type, *operands, outputs=len(node.output), **attributes)
        operator = builder.graph.operator(outputs[0].node)
        content = self.sizes.follow(builder.graph, operator, operands)
        array = None if content is None or len(outputs) > 1 else numbers(content, operator.types[0])
        if array is not None:
            builder.graph.remove(operator.key)
            return [builder.graph.add_constant(array)]
        return folded(builder.graph, operator, operands, outputs)
