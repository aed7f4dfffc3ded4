"""fold-output-padding: a transposed convolution's output padding is less than its stride."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from ....ir import Builder, Graph, Operator, Value
from ....passes.pattern import PatternPass


@dataclass(frozen=True)
class FoldOutputPadding(PatternPass):
    """Take an output padding of at least the stride off the pads at the end.

    What it does:
        Makes the pads at the end of each axis smaller by the output padding. What is left of that is a Pad
        with zeros behind the convolution, and the bias is added behind both. Nested graphs included.

    Why:
        ONNX Runtime refuses an output padding that is not less than the stride; torch takes one that is less
        than the dilation.

    Leaves alone:
        Transposed convolutions with less, and those whose pads are left to the runtime.

    Refuses:
        Nothing.

    Example:
        >>> from regraft.ir import parse
        >>> graph = parse('''
        ... graph main {
        ...   %x = input "x" : f32[N,2,6]
        ...   %w = param "w" : f32[2,3,3]
        ...   %y = ConvTranspose(%x, %w) {dilations=[2], output_padding=[1], pads=[1, 1]} : f32[N,3,9]
        ...   return "y" = %y
        ... }''')
        >>> for change in FoldOutputPadding().run(graph):
        ...     print(change)
        OX105 the output padding is taken off the pads - at `ConvTranspose`
    """

    name: ClassVar[str] = "fold-output-padding"
    codes: ClassVar[dict[str, str]] = {"OX105": "an output padding is taken off the pads"}
    operators: ClassVar[tuple[str, ...]] = ("ConvTranspose",)
    nested: ClassVar[bool] = True

    def rewrite(self, graph: Graph, node: Operator) -> str:
        """Fold; see the class."""
        added = node.ints("output_padding")
        strides = node.ints("strides") or [1] * len(added)
        explicit = node.str("auto_pad") == "NOTSET" and node.attribute("output_shape") is None
        if not explicit or all(a < s for a, s in zip(added, strides, strict=False)):
            return ""
        _fold(graph, node, added)
        return "the output padding is taken off the pads"


def _fold(part: Graph, node: Operator, added: list[int]) -> None:
    rank = len(added)
    pads = node.ints("pads") or [0] * (2 * rank)
    ends = [max(end - more, 0) for end, more in zip(pads[rank:], added, strict=True)]
    behind = [max(more - end, 0) for end, more in zip(pads[rank:], added, strict=True)]
    attributes: dict[str, Any] = {n: v for n, v in node.attributes.items() if n != "output_padding"}
    attributes["pads"] = [*pads[:rank], *ends]
    x, weight, *bias = part.operands(node.key)
    b = Builder(part)
    with b.inside(node.call, node.location):
        inner = bias if not any(behind) else []
        found = b.op("ConvTranspose", x, weight, *inner, **attributes)
        if any(behind):
            zero = b.scalar_like(0, found)
            found = b.op("Pad", found, b.constant([*[0] * (rank + 2), 0, 0, *behind]), zero)
            if bias and bias[0] is not None:
                column = b.op("Unsqueeze", bias[0], b.constant(list(range(1, rank + 1))))
                found = b.op("Add", found, column)
    part.replace_uses(Value(node.key), found)
