"""fold-prelu-slopes: a PRelu is given its slope as it is stored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ....ir import Graph, Operator, Parameter, Value
from ....passes.pattern import PatternPass
from ..operators import DOMAIN


@dataclass(frozen=True)
class FoldPreluSlopes(PatternPass):
    """Take away the Reshape between a slope and its PRelu.

    What it does:
        Makes a PRelu whose slope of one a channel is a Reshape or Unsqueeze of a parameter a
        `regraft.source.PRelu` of the parameter itself.

    Why:
        ONNX wants slopes of (C, 1, 1), which broadcast; nn.PReLU of a framework wants (C), as it is stored.

    Leaves alone:
        Slopes that are computed in any other way.

    Refuses:
        Nothing.

    Example:
        >>> from regraft.ir import parse
        >>> graph = parse('''
        ... graph main {
        ...   %x = input "x" : f32[N,4,8]
        ...   %0 = param "slope" : f32[4]
        ...   %1 = const [4, 1] : i64[2]
        ...   %2 = Reshape(%0, %1) : f32[4,1]
        ...   %y = PRelu(%x, %2) : f32[N,4,8]
        ...   return "y" = %y
        ... }''')
        >>> for change in FoldPreluSlopes().run(graph):
        ...     print(change)
        MS104 reads its slope in the stored shape - at `PRelu`
    """

    name: ClassVar[str] = "fold-prelu-slopes"
    codes: ClassVar[dict[str, str]] = {"MS104": "a PRelu reads its slope in the stored shape"}
    operators: ClassVar[tuple[str, ...]] = ("PRelu",)

    def rewrite(self, graph: Graph, node: Operator) -> str:
        """Fold; see the class."""
        source = _find_stored_slope(graph, node)
        if source is None:
            return ""
        graph.set_operand(node.key, 1, source)
        node.domain = DOMAIN
        return "reads its slope in the stored shape"


def _find_stored_slope(graph: Graph, node: Operator) -> Value | None:
    """Return the parameter that the slope is a Reshape of, or None."""
    slope = graph.operands(node.key)[1]
    assert slope is not None
    shaping = graph.node(slope.node)
    if not isinstance(shaping, Operator) or shaping.qualified_name not in ("Reshape", "Unsqueeze"):
        return None
    source = graph.operands(shaping.key)[0]
    parameter = None if source is None else graph.node(source.node)
    data, shape = graph.operands(node.key)[0], shaping.types[0]
    rank = None if data is None or (known := graph.type_of(data)) is None else known.rank
    if not isinstance(parameter, Parameter) or shape is None or shape.shape is None or rank is None:
        return None
    if len(parameter.data.shape) != 1:
        return None
    spread = (*[1] * (rank - len(shape.shape)), *shape.shape)
    per_channel = tuple(parameter.data.shape[0] if axis == 1 else 1 for axis in range(rank))
    return source if spread in (per_channel, (1,) * rank) else None
