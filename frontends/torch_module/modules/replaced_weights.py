"""Float weights that a quantised model still registers beside what has replaced them."""

from __future__ import annotations

from collections import Counter

from ....ir import Constant, Graph, Parameter, Value


def retire_replaced(graph: Graph) -> list[str]:
    """Mark unread weights of the shapes of quantised ones as not trained; return what to note of them.

    torch folds the quantisation of a weight into a new buffer, and leaves the weight where it was.
    """
    replaced: Counter[tuple[int, ...]] = Counter()
    for operator in graph.operators():
        first = graph.operands(operator.key)[0] if operator.traits.dequantises else None
        node = None if first is None else graph.node(first.node)
        if isinstance(node, (Constant, Parameter)) and len(node.data.shape) > 1:
            replaced[node.data.shape] += 1
    count = 0
    for parameter in graph.parameters() if replaced else ():
        shape = parameter.data.shape
        if parameter.trainable and replaced[shape] and not graph.is_read(Value(parameter.key)):
            parameter.trainable = False
            replaced[shape] -= 1
            count += 1
    return [f"quantised weights have replaced {count} float ones, which nothing reads"] if count else []
