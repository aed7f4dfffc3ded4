"""Type inference of single operators: ONNX's own rules, and the composites'."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx

from .errors import InvalidGraphError
from .graph import Graph
from .nodes import Constant, Operator, Value
from .operators import DOMAIN, OPSET, onnx_schema, signature
from .tensors import TensorData
from .types import TensorType, type_of_proto, type_to_proto

_OPSETS = [onnx.helper.make_opsetid("", OPSET)]
_SMALL = 1024  # elements: shapes, axes and pads, which is what ONNX's rules read


def attribute_proto(name: str, value: object, kind: str | None = None) -> onnx.AttributeProto:
    """ONNX's form of an attribute value (nested graphs excepted)."""
    if isinstance(value, np.ndarray):
        return onnx.helper.make_attribute(name, onnx.numpy_helper.from_array(value))
    if isinstance(value, (list, tuple)) and not value:
        types = {
            "ints": onnx.AttributeProto.INTS,
            "floats": onnx.AttributeProto.FLOATS,
            "strings": onnx.AttributeProto.STRINGS,
        }
        return onnx.helper.make_attribute(name, [], attr_type=types[kind or "ints"])
    if kind == "float":
        value = float(value)  # type: ignore[arg-type] - of the kind that its operator states
    if kind == "floats":
        value = [float(v) for v in value]  # type: ignore[union-attr] - likewise
    return onnx.helper.make_attribute(name, value)


def infer_types(
    graph: Graph, operator: Operator, operands: Sequence[Value | None], outputs: int
) -> list[TensorType | None]:
    """The types of an operator's outputs, None where the rules cannot tell.

    Args:
        graph: the graph that holds the operands.
        operator: the operator; its own `types` are not read.
        operands: its inputs by slot.
        outputs: how many outputs it has.

    Raises:
        InvalidGraphError: when the operand types or attributes contradict the operator's rule.
    """
    types = [None if v is None else graph.type_of(v) for v in operands]
    if operator.domain == DOMAIN:
        from .composites import composite

        found = composite(operator.op_type).infer(operator, types)
        return [*found, *([None] * (outputs - len(found)))][:outputs]
    if operator.subgraphs():
        return [None] * outputs  # ONNX's rules give nothing for If and Loop: their builder states the types
    schema = onnx_schema(operator.op_type)
    specs = signature(operator.op_type).attributes
    names = [f"i{slot}" if value is not None else "" for slot, value in enumerate(operands)]
    node = onnx.NodeProto(op_type=operator.op_type, input=names, output=[f"o{i}" for i in range(outputs)])
    name = ""
    try:
        for name, value in operator.attributes.items():
            kind = specs[name].kind if name in specs else None
            node.attribute.append(attribute_proto(name, value, kind))
    except (TypeError, ValueError, OverflowError) as error:  # numbers that ONNX's 64 or 32 bits cannot hold
        raise InvalidGraphError(
            "E301",
            f"attribute `{name}` of `{operator.op_type}` cannot be written: {error}",
            place=operator.location,
        ) from error
    known: dict[str, onnx.TypeProto] = {}
    data: dict[str, onnx.TensorProto] = {}
    for name, value, type_ in zip(names, operands, types, strict=True):
        if value is None:
            continue
        if type_ is not None:
            known[name] = type_to_proto(type_)
        producer = graph.node(value.node)
        if isinstance(producer, Constant) and _is_readable(producer.data):
            data[name] = onnx.numpy_helper.from_array(np.asarray(producer.data.numpy(), order="C"))
    if len(known) < sum(v is not None for v in operands):
        return [None] * outputs
    try:
        found = onnx.shape_inference.infer_node_outputs(schema, node, known, data, opset_imports=_OPSETS)
    except (onnx.shape_inference.InferenceError, onnx.checker.ValidationError) as error:
        detail = next(
            (line for line in reversed(str(error).splitlines()) if line.strip()), "inference failed"
        )
        got = ", ".join(str(t) for t in types)
        raise InvalidGraphError(
            "E301",
            f"operands of `{operator.op_type}` contradict its rule: {detail}; "
            f"got ({got}) with {operator.attributes}",
            place=operator.location,
        ) from error
    return [type_of_proto(found[f"o{i}"]) if f"o{i}" in found else None for i in range(outputs)]


def _is_readable(data: TensorData) -> bool:
    """Whether a constant is there, and small enough to be a shape, axes or pads."""
    size = int(np.prod(data.shape, dtype=np.int64))
    return data.load is not None and data.dtype != "string" and size <= _SMALL
