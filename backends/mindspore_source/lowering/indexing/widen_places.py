"""widen-places: indices that MindSpore returns as int32 are cast to int64 where the difference matters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .....ir import Builder, Graph, Operator, TensorType, Value, onnx_dtype
from .....passes.pattern import PatternPass
from ...operators import DOMAIN

_NARROW = {"ArgMin": 0, "TopK": 1}
"""Operator -> its output of indices, which MindSpore's function returns as int32."""

_SELECTING = frozenset({"Gather", "GatherElements", "GatherND"})


@dataclass(frozen=True)
class WidenPlaces(PatternPass):
    """Cast the places that ArgMin and TopK find to int64.

    What it does:
        Makes each a `regraft.mindspore.ArgMin` or `regraft.mindspore.TopK`, whose places are int32, with a
        Cast behind them.

    Why:
        ONNX says int64; MindSpore's functions give int32, which overflows in products with strides and is
        another element type in what the net returns.

    Leaves alone:
        Places that only select (the indices of a Gather) or are cast anyway get no Cast.

    Refuses:
        Nothing.

    Example:
        >>> from regraft.ir import parse
        >>> graph = parse('''
        ... graph main {
        ...   %x = input "x" : f32[N,4]
        ...   %y = ArgMin(%x) {axis=1, keepdims=0} : i64[N]
        ...   return "y" = %y
        ... }''')
        >>> for change in WidenPlaces().run(graph):
        ...     print(change)
        MS109 gives places of int32 - at `ArgMin`
    """

    name: ClassVar[str] = "widen-places"
    codes: ClassVar[dict[str, str]] = {
        "MS109": "an operator finds places as int32, which are cast where that can be seen"
    }
    operators: ClassVar[tuple[str, ...]] = ("ArgMin", "TopK")

    def rewrite(self, graph: Graph, node: Operator) -> str:
        """Widen; see the class."""
        found = _NARROW[node.qualified_name]
        node.domain = DOMAIN
        if found < len(node.types):
            value, known = Value(node.key, found), node.types[found]
            node.types[found] = None if known is None else TensorType("int32", known.shape)
            if _is_seen(graph, value):
                b = Builder(graph)
                with b.inside(node.call, node.location):
                    wide = b.op("Cast", value, types=[known], to=onnx_dtype("int64"))
                graph.replace_uses(value, wide, except_in=[wide.node])
        return "gives places of int32"


def _is_seen(graph: Graph, places: Value) -> bool:
    """Whether some user distinguishes int32 from int64: neither a selection nor a cast."""
    users = [(slot, graph.operator(key)) for key, slot in graph.users(places)]
    return graph.is_output(places) or not all(
        node.op_type == "Cast" or (node.op_type in _SELECTING and slot == 1) for slot, node in users
    )
