"""What a composite is, and the table that a family file fills."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..declarations import Declaration, InferTypes, make_signature
from ..signatures import DOMAIN, AttributeSpec
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


class CompositeTable:
    """The composites of one family file; a name claimed twice raises on import."""

    def __init__(self) -> None:
        self.rows: dict[str, Composite] = {}

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
        if name in self.rows:
            raise ValueError(f"composite `{name}` claimed twice")
        self.rows[name] = Composite(
            make_signature(name, DOMAIN, inputs, outputs, attributes),
            infer,
            summary,
            traits,
            expand,
        )

    @staticmethod
    def merge(*tables: CompositeTable) -> dict[str, Composite]:
        """One table of several, by name.

        Raises:
            ValueError: when two tables claim one name.
        """
        merged: dict[str, Composite] = {}
        for table in tables:
            for name, row in table.rows.items():
                if name in merged:
                    raise ValueError(f"composite `{name}` claimed twice")
                merged[name] = row
        return merged
