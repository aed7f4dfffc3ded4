"""The vocabulary: ONNX's own operators, read from onnx.defs, and our composites."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import onnx

from .errors import InvalidGraphError
from .signatures import DOMAIN, OPSET, AttributeSpec, Formal, Signature

_KINDS = {
    onnx.defs.OpSchema.AttrType.INT: "int",
    onnx.defs.OpSchema.AttrType.FLOAT: "float",
    onnx.defs.OpSchema.AttrType.STRING: "string",
    onnx.defs.OpSchema.AttrType.INTS: "ints",
    onnx.defs.OpSchema.AttrType.FLOATS: "floats",
    onnx.defs.OpSchema.AttrType.STRINGS: "strings",
    onnx.defs.OpSchema.AttrType.TENSOR: "tensor",
    onnx.defs.OpSchema.AttrType.GRAPH: "graph",
}


@cache
def onnx_schema(op_type: str) -> onnx.defs.OpSchema:
    """ONNX's schema of an operator in our opset.

    Raises:
        InvalidGraphError: when ONNX has no such operator.
    """
    try:
        return onnx.defs.get_schema(op_type, OPSET, "")
    except onnx.defs.SchemaError as error:
        raise InvalidGraphError(
            "E301", f"expected an ONNX operator of opset {OPSET}, got `{op_type}`"
        ) from error


@cache
def signature(op_type: str, domain: str = "") -> Signature:
    """The signature of an operator.

    Raises:
        InvalidGraphError: when the domain has no such operator.
    """
    if domain == DOMAIN:
        from .composites import composite

        return composite(op_type).signature
    if domain:
        raise InvalidGraphError("E301", f"expected the domain `` or `{DOMAIN}`, got `{domain}`")
    schema = onnx_schema(op_type)
    option = onnx.defs.OpSchema.FormalParameterOption

    def formals(parameters: Sequence[onnx.defs.OpSchema.FormalParameter]) -> tuple[Formal, ...]:
        return tuple(
            Formal(
                p.name,
                # a variadic formal with a minimum of 0 may be absent altogether
                p.option == option.Optional or (p.option == option.Variadic and p.min_arity == 0),
                p.option == option.Variadic,
            )
            for p in parameters
        )

    attributes = {
        name: AttributeSpec(
            name,
            _KINDS.get(a.type, "other"),
            a.required,
            onnx.helper.get_attribute_value(a.default_value) if a.default_value.name else None,
        )
        for name, a in schema.attributes.items()
    }
    return Signature(op_type, "", formals(schema.inputs), formals(schema.outputs), attributes)
