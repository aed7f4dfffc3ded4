"""Signatures of operators: their inputs, outputs and attributes, as their domain declares them."""

from __future__ import annotations

from dataclasses import dataclass

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
