"""The names of one graph or function of a file, and what lowers its nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import onnx

from ...ir import Builder, Operator, Value
from ...ir.analysis.sizes import Sizes
from ...ir.analysis.small_constants import numbers
from ...ir.functions.stated import resolved_attributes
from .scopes import Scope


@dataclass(slots=True)
class Frame:
    """The names of one graph or function of the file.

    Attributes:
        b: builds in its graph.
        values: name -> value.
        sizes: what small integer tensors of the graph hold.
        opsets: domain -> version that its nodes are of.
        given: attributes of the function call that it is the body of.
        scope: of the module that a function's body is in.
        outer: the frame of the graph around a nested one.
        depth: how many it lies within.
        sequences: name -> values, where a name stands for several.
    """

    b: Builder
    values: dict[str, Value]
    sizes: Sizes
    opsets: Mapping[str, int]
    given: dict[str, onnx.AttributeProto] = field(default_factory=dict[str, onnx.AttributeProto])
    scope: Scope = ()
    outer: Frame | None = None
    depth: int = 0
    sequences: dict[str, list[Value]] = field(default_factory=dict[str, list[Value]])

    def follow(self, operator: Operator, operands: Sequence[Value | None]) -> Value | None:
        """Refine the type of an operator of this graph by sizes, and note what it holds.

        Returns:
            A constant of what it holds, where that is all numbers.
        """
        content = self.sizes.follow(self.b.graph, operator, operands)
        if content is None or len(operator.types) != 1:
            return None
        array = numbers(content, operator.types[0])
        return None if array is None else self.b.graph.add_constant(array)

    def resolved(self, node: onnx.NodeProto) -> dict[str, onnx.AttributeProto]:
        """Return a node's attributes, with those of the call around it where it refers to them."""
        return resolved_attributes(node, self.given)


class Lowers(Protocol):
    """The interface of a lowering that nested graphs need."""

    def lookup(self, frame: Frame, name: str, place: str) -> Value:
        """Return the value of a name."""
        ...

    def lower(self, frame: Frame, node: onnx.NodeProto, scope: Scope | None) -> None:
        """Lower one node of a frame."""
        ...
