"""The vocabulary: ONNX's own operators, read from onnx.defs, and our composites."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import onnx

from .errors import InvalidGraphError
from .nodes import Nested, Operator

OPSET = 23
"""The ONNX opset whose names, inputs, attributes and semantics the IR uses."""

DOMAIN = "regraft"
"""The domain of composites."""


@dataclass(frozen=True, slots=True)
class Formal:
    """A formal input or output of an operator."""

    name: str
    optional: bool = False
    variadic: bool = False


@dataclass(frozen=True, slots=True)
class AttributeSpec:
    """An attribute: its kind ("int", "float", "string", "ints", "floats", "strings", "tensor", "graph")."""

    name: str
    kind: str
    required: bool = False
    default: object = None


@dataclass(frozen=True, slots=True)
class Signature:
    """Arity and attributes of an operator, ONNX's or a composite's."""

    op_type: str
    domain: str
    inputs: tuple[Formal, ...]
    outputs: tuple[Formal, ...]
    attributes: dict[str, AttributeSpec]

    @property
    def min_inputs(self) -> int:
        """Number of inputs up to the last that is required."""
        required = [i for i, f in enumerate(self.inputs, 1) if not f.optional]
        return required[-1] if required else 0

    @property
    def max_inputs(self) -> int | None:
        """Number of inputs, or None when the last is variadic."""
        return None if self.inputs and self.inputs[-1].variadic else len(self.inputs)


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


_PYTHON_KINDS: dict[str, tuple[type, ...]] = {
    "int": (int,),
    "float": (float, int),
    "string": (str,),
    "tensor": (np.ndarray,),
    "graph": (Nested,),
}
_ELEMENTS: dict[str, tuple[type, ...]] = {"ints": (int,), "floats": (float, int), "strings": (str,)}


def check_operator(operator: Operator, inputs: int, outputs: int) -> None:
    """Check one operator's arity and attributes against its signature.

    Raises:
        InvalidGraphError: naming the operator and what does not fit.
    """

    def fail(message: str) -> InvalidGraphError:
        return InvalidGraphError(
            "E301", message, place=f"`{operator.qualified_name}` {operator.location}".strip()
        )

    sig = signature(operator.op_type, operator.domain)
    if inputs < sig.min_inputs or (sig.max_inputs is not None and inputs > sig.max_inputs):
        bound = f"{sig.min_inputs} to {sig.max_inputs if sig.max_inputs is not None else 'any number of'}"
        raise fail(f"expected {bound} inputs, got {inputs}")
    if not outputs or (len(sig.outputs) < outputs and not (sig.outputs and sig.outputs[-1].variadic)):
        raise fail(f"expected 1 to {len(sig.outputs)} outputs, got {outputs}")
    for name, value in operator.attributes.items():
        if name not in sig.attributes:
            known = ", ".join(sorted(sig.attributes)) or "none"
            raise fail(f"expected an attribute among {known}, got `{name}`")
        kind = sig.attributes[name].kind
        if kind in _ELEMENTS:
            good = isinstance(value, list) and all(isinstance(v, _ELEMENTS[kind]) for v in value)
        else:
            good = isinstance(value, _PYTHON_KINDS.get(kind, (object,)))
        if not good:
            raise fail(f"expected attribute `{name}` of kind {kind}, got `{value!r}`")
    for name, spec in sig.attributes.items():
        if spec.required and name not in operator.attributes:
            raise fail(f"expected the attribute `{name}`, got none")
