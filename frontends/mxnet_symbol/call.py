"""One use of an MXNet operator: operands by slot, attributes by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...ir import Builder, Value
from .. import call
from .attributes import TextAttributes
from .reader import SymbolNode

_MOST = 1 << 22  # a damaged attribute must not cost the memory it names


class Call(TextAttributes, call.Call):
    """An operator node with its operands in the graph under construction.

    Args:
        b: the builder, inside the module call that the node belongs to.
        node: the node of the symbol file.
        operands: None for a label, which inference does not read, and for a state of zeros.
        names: names of the operands in the file.
    """

    framework = "MXNet"

    def __init__(
        self, b: Builder, node: SymbolNode, operands: Sequence[Value | None], names: Sequence[str]
    ) -> None:
        arguments: Mapping[str | int, object] = {**dict(enumerate(operands)), **node.attributes}
        call.Call.__init__(self, b, node.op, arguments, node.place)
        self.node, self.names = node, names

    def operands(self) -> list[Value]:
        """Return all operands; `num_args` says no more than how many there are."""
        self.ignore("num_args")
        return super().operands()

    def bounded(self, count: float, most: int = _MOST) -> None:
        """Refuse to make more elements, or parts, than a model plausibly has."""
        if not 0 <= count <= most:
            raise self.unsupported(f"expected at most {most} elements or parts, got {count:g}")
