"""The vocabulary: ONNX's own operators, read from onnx.defs, and our composites."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import cast

import numpy as np
import onnx

from .declarations import find_declaration
from .errors import InvalidGraphError
from .signatures import OPSET, AttributeSpec, Formal, Signature
from .traits import CLASSIFIED, Traits

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
    """Return ONNX's schema of an operator in our opset.

    Raises:
        InvalidGraphError: when ONNX has no such operator.
    """
    try:
        return onnx.defs.get_schema(op_type, OPSET, "")
    except onnx.defs.SchemaError as error:
        raise InvalidGraphError(
            "E301", f"expected an ONNX operator of opset {OPSET}, got `{op_type}`"
        ) from error


def _default(attribute: onnx.AttributeProto) -> object:
    """Return a default in its shortest decimal form: 1e-05, not the float32 value 9.999999747378752e-06."""
    if not attribute.name:
        return None
    value = onnx.helper.get_attribute_value(attribute)
    match value:
        case bytes():
            return value.decode()
        case float():
            return float(str(np.float32(value)))
        case [bytes(), *_]:
            return [text.decode() for text in cast("list[bytes]", value)]
        case _:
            return value


@cache
def signature(op_type: str, domain: str = "") -> Signature:
    """Return the signature of an operator.

    Raises:
        InvalidGraphError: when the domain has no such operator.
    """
    if domain:
        return find_declaration(op_type, domain).signature
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
            _default(a.default_value),
        )
        for name, a in schema.attributes.items()
    }
    return Signature(op_type, "", formals(schema.inputs), formals(schema.outputs), attributes)


@cache
def traits_of(op_type: str, domain: str = "") -> Traits:
    """Return what an operator is.

    Raises:
        InvalidGraphError: when the domain has no such operator.

    Example:
        >>> traits_of("MaxPool").pool, traits_of("Linear", "regraft").heavy
        (True, True)
    """
    attributes = signature(op_type, domain).attributes
    if domain:
        stated = find_declaration(op_type, domain).traits
    elif op_type in CLASSIFIED:
        stated = CLASSIFIED[op_type]
    else:
        raise InvalidGraphError("E301", f"expected an operator of the table of traits, got `{op_type}`")
    inside = bool(domain) and "dropout" in attributes
    return replace(
        stated,
        control_flow=any(spec.kind == "graph" for spec in attributes.values()),
        windowed="auto_pad" in attributes,
        drops_inside=inside,
        trains_differently=stated.trains_differently or inside,
    )
