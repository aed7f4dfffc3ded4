"""Defines a composite, and the table that a family file fills."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..declarations import Declaration, InferTypes, make_signature
from ..signatures import DOMAIN, AttributeSpec
from ..table import Table
from ..traits import NO_TRAITS, Traits

if TYPE_CHECKING:
    from ..builder import Builder
    from ..nodes import Operator, Value

Expand = Callable[["Builder", "Operator", Sequence["Value | None"]], "list[Value]"]
"""(builder, operator, operands) -> the values of its outputs, made of ONNX operators or other composites."""


@dataclass(frozen=True, slots=True)
class Composite(Declaration):
    """A declared operator that ONNX can say in several of its own."""

    expand: Expand


class CompositeTable(Table[Composite]):
    """The composites of one family file."""

    def add(
        self,
        name: str,
        *,
        inputs: str,
        outputs: str = "Y",
        attributes: Sequence[AttributeSpec] = (),
        infer: InferTypes,
        expand: Expand,
        summary: str,
        traits: Traits = NO_TRAITS,
    ) -> None:
        """Add a composite.

        Args:
            name: its operator name.
            inputs: formal inputs separated by spaces; ``?`` marks an optional one, ``*`` a variadic one.
            outputs: likewise.
            attributes: its attributes.
            infer: typing rule.
            expand: expansion into ONNX operators.
            summary: one line of what it computes.
            traits: what it is; what its attributes tell is derived.
        """
        signature = make_signature(name, DOMAIN, inputs, outputs, attributes)
        self.claim(name, Composite(signature, infer, summary, traits, expand))
