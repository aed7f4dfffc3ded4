"""drop-reduced-axes: a reduction drops axes that a flatten behind it removes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ....ir import Builder, Graph, Operator, Value
from ....passes.pattern import PatternPass

_REDUCTIONS = {"GlobalAveragePool": "ReduceMean", "GlobalMaxPool": "ReduceMax"}


@dataclass(frozen=True)
class DropReducedAxes(PatternPass):
    """Write ``x.mean((2, 3))`` for a global pooling whose axes of size 1 are flattened.

    What it does:
        Replaces a GlobalAveragePool or GlobalMaxPool, and the Flatten that alone reads it, by a reduction of
        the spatial axes that does not keep them, where both are of one call.

    Why:
        Axes of size 1 are kept only to be removed; without them it is one operator.

    Leaves alone:
        Poolings that are layers of their own, those that something else reads, and flattens from axis 2 on.

    Refuses:
        Nothing.

    Example:
        >>> from regraft.ir import parse
        >>> graph = parse('''
        ... graph main {
        ...   %x = input "x" : f32[N,3,8,8]
        ...   %0 = GlobalAveragePool(%x) : f32[N,3,1,1]
        ...   %y = Flatten(%0) : f32[N,3]
        ...   return "y" = %y
        ... }''')
        >>> for change in DropReducedAxes().run(graph):
        ...     print(change)
        MS144 drops the axes of the GlobalAveragePool before it - at `Flatten`
    """

    name: ClassVar[str] = "drop-reduced-axes"
    codes: ClassVar[dict[str, str]] = {"MS144": "a flatten drops the axes of a global pooling"}
    operators: ClassVar[tuple[str, ...]] = ("Flatten",)

    def rewrite(self, graph: Graph, node: Operator) -> str:
        """Reduce; see the class."""
        pooled = graph.operands(node.key)[0]
        pool = None if pooled is None else graph.producer(pooled)
        if pooled is None or not isinstance(pool, Operator) or pool.qualified_name not in _REDUCTIONS:
            return ""
        if pool.call != node.call or graph.is_output(pooled) or len(graph.users(pooled)) != 1:
            return ""
        known, (data,) = graph.type_of(pooled), graph.operands(pool.key)
        rank = None if known is None else known.rank
        if rank is None or data is None or node.int("axis") % rank != 1:
            return ""
        b = Builder(graph)
        with b.inside(node.call, node.location):
            axes = b.constant(list(range(2, rank)))
            reduction = _REDUCTIONS[pool.qualified_name]
            new = b.op(reduction, data, axes, types=node.types[:1], keepdims=0)
        graph.replace_uses(Value(node.key), new)
        return f"drops the axes of the {pool.op_type} before it"
