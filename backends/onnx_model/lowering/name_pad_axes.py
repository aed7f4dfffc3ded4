"""name-pad-axes: every Pad states the pads of all axes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ....ir import Builder, Graph, Operator
from ....passes.pattern import PatternPass


@dataclass(frozen=True)
class NamePadAxes(PatternPass):
    """Write the pads of all axes into a Pad that names some axes.

    What it does:
        Writes the constant pads of the axes that a Pad names as pads of all axes, nested graphs included.

    Why:
        ONNX Runtime 1.31 moves transposes past a Pad as if there were no `axes` (its transpose optimizer):
        the session then fails, or pads other axes.

    Leaves alone:
        Pads that are computed, and values of unknown rank.

    Refuses:
        Nothing.

    Example:
        >>> from regraft.ir import parse
        >>> graph = parse('''
        ... graph main {
        ...   %x = input "x" : f32[N,4]
        ...   %0 = const [1, 1] : i64[2]
        ...   %1 = const [1] : i64[1]
        ...   %y = Pad(%x, %0, _, %1) : f32[N,6]
        ...   return "y" = %y
        ... }''')
        >>> for change in NamePadAxes().run(graph):
        ...     print(change)
        OX101 pads are given for every axis - at `Pad`
    """

    name: ClassVar[str] = "name-pad-axes"
    codes: ClassVar[dict[str, str]] = {"OX101": "pads of named axes are pads of all axes"}
    operators: ClassVar[tuple[str, ...]] = ("Pad",)
    nested: ClassVar[bool] = True

    def rewrite(self, graph: Graph, node: Operator) -> str:
        """Name them; see the class."""
        pads = _of_all_axes(graph, node)
        if pads is None:
            return ""
        graph.set_operand(node.key, 1, Builder(graph).constant(pads, "int64"))
        graph.set_operand(node.key, 3, None)
        return "pads are given for every axis"


def _of_all_axes(part: Graph, pad: Operator) -> list[int] | None:
    """Return the pads of all axes; None if they are given so already, or unknown."""
    data, amounts, *rest = part.operands(pad.key)
    axes = rest[1] if len(rest) > 1 else None
    given, named = part.constant_value(amounts), part.constant_value(axes)
    known = None if data is None else part.type_of(data)
    rank = None if known is None else known.rank
    if given is None or named is None or rank is None:
        return None
    pads = [0] * (2 * rank)
    for at, axis in enumerate(named.tolist()):
        pads[axis % rank], pads[axis % rank + rank] = int(given[at]), int(given[at + len(named)])
    return pads
