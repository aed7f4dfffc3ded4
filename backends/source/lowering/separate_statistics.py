"""separate-statistics: a layer normalisation that gives its statistics too computes them beside the layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ....ir import Builder, Graph, Operator, Value
from ....ir.composites.terms import Term, sqrt
from ....passes.pattern import PatternPass


@dataclass(frozen=True)
class SeparateStatistics(PatternPass):
    """Compute the mean and the inverse deviation of a LayerNormalization by themselves.

    What it does:
        Gives a LayerNormalization whose second or third output is used one output, and computes the others
        from its input in float32: the mean, and one over the root of the mean square around it.

    Why:
        A framework's layer has one output. ONNX's definition of the operator takes the variance for the mean
        of squares less the square of the mean, which is lost where the mean is large.

    Leaves alone:
        A LayerNormalization of which nothing else is used, or of an input of unknown rank.

    Refuses:
        Nothing.

    Example:
        >>> from regraft.ir import parse
        >>> graph = parse('''
        ... graph main {
        ...   %x = input "x" : f32[N,4]
        ...   %0 = param "scale" : f32[4]
        ...   %y = LayerNormalization(%x, %0) : f32[N,4], f32[N,1], f32[N,1]
        ...   return "y" = %y
        ...   return "mean" = %y:1
        ... }''')
        >>> for change in SeparateStatistics().run(graph):
        ...     print(change)
        MS141 computes its statistics beside it - at `LayerNormalization`
    """

    name: ClassVar[str] = "separate-statistics"
    codes: ClassVar[dict[str, str]] = {"MS141": "the statistics of a normalisation are computed beside it"}
    operators: ClassVar[tuple[str, ...]] = ("LayerNormalization",)

    def rewrite(self, graph: Graph, node: Operator) -> str:
        """Separate; see the class."""
        used = any(_is_used(graph, node, index) for index in (1, 2))
        return "computes its statistics beside it" if used and _separate(graph, node) else ""


def _is_used(graph: Graph, node: Operator, index: int) -> bool:
    value = Value(node.key, index)
    return index < len(node.types) and graph.is_read(value)


def _separate(graph: Graph, node: Operator) -> bool:
    """Compute the statistics by themselves; False where it is not known over how many axes."""
    b = Builder(graph)
    x = graph.operands(node.key)[0]
    assert x is not None
    rank = graph.known_type(x).rank
    if rank is None:
        return False
    axis = node.int("axis") % rank
    with b.inside(node.call, node.location):
        axes = Term(b, b.constant(list(range(axis, rank))))
        wide = Term(b, x).cast("float32") if graph.known_type(x).dtype != "float64" else Term(b, x)
        mean = wide.op("ReduceMean", axes, keepdims=1)
        found = [mean]
        if _is_used(graph, node, 2):
            apart = wide - mean
            variance = (apart * apart).op("ReduceMean", axes, keepdims=1)
            found.append(1 / sqrt(variance + node.float("epsilon")))
        for index, statistic in enumerate(found, 1):
            known = node.types[index]
            if known is not None:
                statistic = statistic.cast(known.dtype)
            graph.replace_uses(Value(node.key, index), statistic.value)
    return True
