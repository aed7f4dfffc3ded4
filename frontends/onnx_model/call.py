"""One ONNX node as its lowering sees it: operands, attributes as Python values, and where to build."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from ...ir import Builder, ModelError, TensorType, UnsupportedError, Value
from ...ir.functions.stated import plain_attribute
from ..building import Building
from .initializers import element_type


class Call(Building):
    """A node of a file, before it is one of our opset.

    Lowerings may change `operands` and `attributes` and return None, which leaves the rest to the operator of
    the same name; or they return the outputs.

    Args:
        b: builds in the module call of the node.
        node: the node.
        operands: its inputs by slot; None where one is absent.
        version: of its domain, as the file imports it.
        place: for messages.
        attributes: by name; nested graphs as ONNX has them.
        of_mxnet: whether MXNet's own exporter wrote the file.
    """

    def __init__(
        self,
        b: Builder,
        node: onnx.NodeProto,
        operands: Sequence[Value | None],
        version: int,
        place: str,
        attributes: dict[str, Any],
        *,
        of_mxnet: bool = False,
    ) -> None:
        super().__init__(b)
        self.node = node
        self.operator = node.op_type
        self.operands = list(operands)
        self.attributes = attributes
        self.version = version
        self.of_mxnet = of_mxnet
        self.place = place
        outputs = list(node.output)
        while len(outputs) > 1 and not outputs[-1]:
            outputs.pop()
        self.outputs = len(outputs)

    def unsupported(self, message: str, hint: str = "") -> UnsupportedError:
        """Return the error for a form of the operator that is not lowered."""
        return UnsupportedError("E203", f"`{self.operator}`: {message}", place=self.place, hint=hint)

    # -- what is given -------------------------------------------------------------------------

    def value(self, slot: int) -> Value:
        """Return an operand.

        Raises:
            UnsupportedError: when it is absent.
        """
        found = self.optional(slot)
        if found is None:
            raise self.unsupported(f"expected operand {slot}, got none")
        return found

    def optional(self, slot: int) -> Value | None:
        """Return an operand that may be absent."""
        return self.operands[slot] if slot < len(self.operands) else None

    def array(self, slot: int) -> np.ndarray | None:
        """Return the values of an operand that is a constant; None where it is not."""
        return self.graph.constant_value(self.optional(slot))

    def take(self, name: str, default: Any = None) -> Any:
        """Take an attribute away and return it."""
        return self.attributes.pop(name, default)

    def take_rest(self) -> dict[str, Any]:
        """Take all attributes away that are left, and return them."""
        rest, self.attributes = self.attributes, {}
        return rest

    def require_read(self) -> None:
        """Check that no attribute is left.

        Raises:
            UnsupportedError: naming the attributes that are left.
        """
        if self.attributes:
            left = ", ".join(f"`{name}`" for name in self.attributes)
            raise self.unsupported(f"expected an operator without {left}")

    def type(self, slot: int = 0) -> TensorType:
        """Return the type of an operand.

        Raises:
            UnsupportedError: when not even its rank is known.
        """
        found = self.graph.type_of(self.value(slot))
        if found is None or found.shape is None:
            raise self.unsupported("expected an operand of known rank")
        return found

    def rank(self, slot: int = 0) -> int:
        """Return the rank of an operand."""
        return len(self.type(slot).shape or ())

    def dtype(self, slot: int = 0) -> str:
        """Return the element type of an operand, whose rank may be unknown."""
        found = self.graph.type_of(self.value(slot))
        if found is None:
            raise self.unsupported("expected an operand of known element type")
        return found.dtype

    # -- building ------------------------------------------------------------------------------

    def ints(self, values: Sequence[int]) -> Value:
        """Add a vector of int64."""
        return self.b.constant(list(values), "int64")


def plain_attributes(given: Mapping[str, onnx.AttributeProto], place: str) -> dict[str, Any]:
    """Return attributes as Python values.

    Raises:
        UnsupportedError: for a tensor of an element type that the IR lacks.
    """
    return {name: _plain(attribute, place) for name, attribute in given.items()}


def _plain(attribute: onnx.AttributeProto, place: str) -> Any:
    if attribute.type != onnx.AttributeProto.TENSOR:
        return plain_attribute(attribute)
    element_type(attribute.t.data_type, place)
    try:
        return plain_attribute(attribute)
    except (ValueError, TypeError, OSError, onnx.checker.ValidationError) as error:
        raise ModelError("E101", f"cannot read a tensor: {error}", place=place) from error
