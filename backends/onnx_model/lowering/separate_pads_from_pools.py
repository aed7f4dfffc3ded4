"""separate-pads-from-pools: ONNX Runtime is kept from folding a Pad into the pool behind it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ....ir import Builder, Graph, Operator
from ....passes.pattern import PatternPass


@dataclass(frozen=True)
class SeparatePadsFromPools(PatternPass):
    """Keep ONNX Runtime from folding a Pad into the pool after it.

    What it does:
        Gives a pool without pads behind a Pad `auto_pad="VALID"`, and puts a Max of one operand before any
        other.

    Why:
        ONNX Runtime 1.31 folds a Pad of zeros into the pool's own pads, which a maximum takes for less than
        any number, and refuses pads that are not smaller than the window. It folds into no pool with
        `auto_pad`, and into none behind another operator.

    Leaves alone:
        Pools behind anything else.

    Refuses:
        Nothing.

    Example:
        >>> from regraft.ir import parse
        >>> graph = parse('''
        ... graph main {
        ...   %x = input "x" : f32[N,4,8]
        ...   %0 = const [0, 0, 1, 0, 0, 1] : i64[6]
        ...   %1 = Pad(%x, %0) : f32[N,4,10]
        ...   %y = MaxPool(%1) {kernel_shape=[2], strides=[2]} : f32[N,4,5]
        ...   return "y" = %y
        ... }''')
        >>> for change in SeparatePadsFromPools().run(graph):
        ...     print(change)
        OX102 stays apart from the Pad before it - at `MaxPool`
    """

    name: ClassVar[str] = "separate-pads-from-pools"
    codes: ClassVar[dict[str, str]] = {"OX102": "a pool stays apart from the Pad before it"}
    operators: ClassVar[tuple[str, ...]] = ("AveragePool", "MaxPool")
    nested: ClassVar[bool] = True

    def rewrite(self, graph: Graph, node: Operator) -> str:
        """Separate; see the class."""
        (data, *_) = graph.operands(node.key)
        pad = None if data is None else graph.producer(data)
        if data is None or not isinstance(pad, Operator) or pad.qualified_name != "Pad":
            return ""
        if any(node.ints("pads")) or node.int("ceil_mode"):
            apart = Builder(graph, call=node.call, location=node.location).op("Max", data)
            graph.set_operand(node.key, 0, apart)
        elif node.str("auto_pad") == "VALID":
            return ""
        else:
            node.attributes.pop("pads", None)
            node.attributes["auto_pad"] = "VALID"
        return "stays apart from the Pad before it"
