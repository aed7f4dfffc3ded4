"""Bodies that ONNX states for its own operators, and what a node within one reads."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import onnx

from ..types import Array, TensorType, type_to_proto


@cache
def has_function(operator: str, version: int | None = None) -> bool:
    """Whether ONNX states a body for an operator, of its newest opset or a given one."""
    try:
        schema: Any = _schema(operator, version)
    except onnx.defs.SchemaError:
        return False
    return bool(schema.has_function or schema.has_context_dependent_function)


def stated_function(
    node: onnx.NodeProto, version: int, types: Sequence[TensorType | None]
) -> onnx.FunctionProto | None:
    """Return the body of an operator that has one, with the defaults of its attributes.

    Args:
        node: the operator as a node; a body may depend on which of its operands and results are there.
        version: the opset that it is of.
        types: of its operands; None where one is absent or unknown.

    Returns:
        The function; None where ONNX states none for this form.
    """
    schema: Any = _schema(node.op_type, version)
    versions = [v for v in schema.context_dependent_function_opset_versions if v <= version]
    if versions:
        protos = [onnx.TypeProto() if t is None else type_to_proto(t) for t in types]
        chosen = max(versions)
        stated = schema.get_context_dependent_function_with_opset_version(
            chosen, node.SerializeToString(), [proto.SerializeToString() for proto in protos]
        )
    else:
        chosen = max(v for v in schema.function_opset_versions if v <= version)
        stated = schema.get_function_with_opset_version(chosen)
    function = onnx.FunctionProto.FromString(stated)
    if not function.node:
        return None
    if not function.opset_import:
        function.opset_import.add(domain="", version=chosen)
    given = {a.name for a in function.attribute_proto}
    for name, attribute in schema.attributes.items():
        if attribute.default_value.name and name not in given:
            function.attribute_proto.append(attribute.default_value)
    return function


def _schema(operator: str, version: int | None) -> onnx.defs.OpSchema:
    return onnx.defs.get_schema(operator) if version is None else onnx.defs.get_schema(operator, version)


def nodes_without(nodes: Iterable[onnx.NodeProto], absent: Collection[str]) -> Iterable[onnx.NodeProto]:
    """Yield the nodes of a body, with no operand in place of each that is absent."""
    for node in nodes:
        if not set(absent).isdisjoint(node.input):
            plain = onnx.NodeProto()
            plain.CopyFrom(node)
            del plain.input[:]
            plain.input.extend("" if name in absent else name for name in node.input)
            node = plain
        yield node


def resolved_attributes(
    node: onnx.NodeProto, given: Mapping[str, onnx.AttributeProto]
) -> dict[str, onnx.AttributeProto]:
    """Return a node's attributes, with those of the call around it where it refers to them."""
    found: dict[str, onnx.AttributeProto] = {}
    for attribute in node.attribute:
        if not attribute.ref_attr_name:
            found[attribute.name] = attribute
        elif attribute.ref_attr_name in given:
            found[attribute.name] = given[attribute.ref_attr_name]
    return found


def plain_attribute(attribute: onnx.AttributeProto) -> Any:
    """Return an attribute as a Python value; nested graphs as ONNX has them."""
    kinds = onnx.AttributeProto
    match attribute.type:
        case kinds.FLOAT:
            return float(str(np.float32(attribute.f)))
        case kinds.FLOATS:
            return [float(str(np.float32(f))) for f in attribute.floats]
        case kinds.STRING:
            return attribute.s.decode("utf-8", "replace")
        case kinds.STRINGS:
            return [s.decode("utf-8", "replace") for s in attribute.strings]
        case kinds.TENSOR:
            numpy_helper: Any = onnx.numpy_helper  # whose annotations leave out what arrays hold
            return numpy_helper.to_array(attribute.t)
        case _:
            found = onnx.helper.get_attribute_value(attribute)
            return list(found) if attribute.type in (kinds.INTS, kinds.GRAPHS) else found


def constant_array(attributes: Mapping[str, Any]) -> Array | None:
    """Return the value of a Constant by its one attribute; None for a sparse one, or several."""
    (name, value), *more = attributes.items() or [("", None)]
    if more or not name or name == "sparse_value":
        return None
    if name == "value":
        return np.asarray(value)
    dtypes = {
        "value_float": np.float32,
        "value_floats": np.float32,
        "value_int": np.int64,
        "value_ints": np.int64,
    }
    return np.asarray(value, dtypes.get(name, object))
