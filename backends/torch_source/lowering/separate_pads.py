"""separate-pads: padding that a convolution layer of torch does not have goes before it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ....ir import Builder, Graph, Operator, Parameter
from ....passes.pattern import PatternPass


@dataclass(frozen=True)
class SeparatePads(PatternPass):
    """Write padding that differs at the ends of an axis before its convolution.

    What it does:
        Gives a Conv of uneven pads a Pad before it, outside the module whose only operator it is.

    Why:
        torch's layers pad both ends alike. Files of TensorFlow and Keras have uneven pads wherever a stride
        is 2; behind a Pad such a convolution is a layer, `nn.Conv2d`.

    Leaves alone:
        Even pads, and convolutions whose weight is computed, which are no layers.

    Refuses:
        Nothing.

    Example:
        >>> from regraft.ir import parse
        >>> graph = parse('''
        ... graph main {
        ...   module "" Net
        ...   %x = input "x" : f32[N,3,8,8]
        ...   %w = param "w" : f32[4,3,3,3]
        ...   %y = Conv(%x, %w) {pads=[0, 0, 1, 1], strides=[2, 2]} : f32[N,4,4,4]
        ...   return "y" = %y
        ... }''')
        >>> for change in SeparatePads().run(graph):
        ...     print(change)
        TS102 is padded before - at `Conv`
    """

    name: ClassVar[str] = "separate-pads"
    codes: ClassVar[dict[str, str]] = {"TS102": "uneven padding goes before a convolution"}
    operators: ClassVar[tuple[str, ...]] = ("Conv",)

    def rewrite(self, graph: Graph, node: Operator) -> str:
        """Separate; see the class."""
        data, weight = graph.operands(node.key)[:2]
        held = graph.producer(weight) if weight is not None else None
        if data is None or not isinstance(held, Parameter) or node.str("auto_pad") != "NOTSET":
            return ""
        rank = len(held.data.shape) - 2
        pads = node.spatial("pads", rank)
        if pads[:rank] == pads[rank:]:
            return ""
        b = Builder(graph)
        with b.inside(_outside(graph, node), node.location):
            padded = b.op("Pad", data, b.constant([0, 0, *pads[:rank], 0, 0, *pads[rank:]], "int64"))
        graph.set_operand(node.key, 0, padded)
        node.attributes["pads"] = [0] * 2 * rank
        return "is padded before"


def _outside(graph: Graph, node: Operator) -> int | None:
    """Return the call around that of the module whose only operator it is; its own for any other."""
    if node.call is None or any(
        other.call == node.call for other in graph.operators() if other.key != node.key
    ):
        return node.call
    parent = graph.modules.call(node.call).parent
    return node.call if parent is None else parent
