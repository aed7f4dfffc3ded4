"""Bodies that ONNX states for its own operators, for those and their forms that our opset lacks."""

from __future__ import annotations

import onnx

from ...ir import InvalidGraphError, signature
from ...ir.functions.stated import has_function, stated_function
from ...ir.operators import onnx_schema
from ...ir.signatures import OPSET, Signature
from .call import Call
from .versions import ADAPTERS


def standard_function(call: Call) -> onnx.FunctionProto | None:
    """Return the body of an operator whose form our opset lacks; None where ONNX states none."""
    if (
        call.version <= OPSET
        or call.operator in ADAPTERS
        or not has_function(call.operator)
        or _is_ours(call)
    ):
        return None
    types = [None if value is None else call.graph.type_of(value) for value in call.operands]
    return stated_function(call.node, call.version, types)


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
