"""Bodies that ONNX states for its own operators, for those and their forms that our opset lacks."""

from __future__ import annotations

from functools import cache
from typing import Any

import onnx

from ...ir import InvalidGraphError, signature
from ...ir.operators import onnx_schema
from ...ir.signatures import OPSET, Signature
from ...ir.types import type_to_proto
from .call import Call
from .versions import ADAPTERS


@cache
def has_function(operator: str) -> bool:
    """Whether ONNX states a body for an operator."""
    try:
        schema: Any = onnx.defs.get_schema(operator)  # whose annotations leave out its functions
    except onnx.defs.SchemaError:
        return False
    return bool(schema.has_function or schema.has_context_dependent_function)


def standard_function(call: Call) -> onnx.FunctionProto | None:
    """Return the body of an operator whose form our opset lacks; None where ONNX states none."""
    if (
        call.version <= OPSET
        or call.operator in ADAPTERS
        or not has_function(call.operator)
        or _is_ours(call)
    ):
        return None
    schema: Any = onnx.defs.get_schema(call.operator, call.version)
    versions = [v for v in schema.context_dependent_function_opset_versions if v <= call.version]
    if versions:
        types = []
        for value in call.operands:
            known = None if value is None else call.graph.type_of(value)
            types.append((onnx.TypeProto() if known is None else type_to_proto(known)).SerializeToString())
        node = onnx.NodeProto()
        node.CopyFrom(call.node)
        version = max(versions)
        stated = schema.get_context_dependent_function_with_opset_version(
            version, node.SerializeToString(), types
        )
    else:
        version = max(v for v in schema.function_opset_versions if v <= call.version)
        stated = schema.get_function_with_opset_version(version)
    function = onnx.FunctionProto.FromString(stated)
    if not function.opset_import:
        function.opset_import.add(domain="", version=version)
    given = {a.name for a in function.attribute_proto}
    for name, attribute in schema.attributes.items():
        if attribute.default_value.name and name not in given:
            function.attribute_proto.append(attribute.default_value)
    return function


def _is_ours(call: Call) -> bool:
    """Whether our opset has the operator with these attributes and as many operands."""
    try:
        known: Signature = signature(call.operator)
    except InvalidGraphError:
        return False
    most = known.max_inputs
    if not set(call.attributes) <= set(known.attributes) or (most is not None and len(call.operands) > most):
        return False
    first = None if not call.operands or call.operands[0] is None else call.graph.type_of(call.operands[0])
    allowed = onnx_schema(call.operator).inputs[0].types if known.inputs else ()
    return first is None or not allowed or _tensor_name(first.dtype) in allowed


def _tensor_name(dtype: str) -> str:
    return f"tensor({ {'float32': 'float', 'float64': 'double'}.get(dtype, dtype) })"
