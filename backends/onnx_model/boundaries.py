"""Module boundaries: the values that enter and leave every module call."""

from __future__ import annotations

from ...ir import Constant, Graph, Operator, Parameter, Value


def call_boundaries(graph: Graph) -> dict[int, tuple[list[Value], list[Value]]]:
    """Return, by call key, the values that enter the call, by first use, and those that leave it.

    A value enters if it is used inside and produced outside, and leaves if it is used outside and produced
    inside. Parameters and constants do not enter. Only operators of the root graph count: modules run inside
    an If or a Loop cannot be observed from outside, so calls that are only there are left out.

    Args:
        graph: a root graph.
    """
    position = {key: i for i, key in enumerate(graph.order())}
    inputs: dict[int, dict[Value, None]] = {}
    outputs: dict[int, dict[Value, None]] = {}
    around = {node.key: set(graph.modules.ancestors(node.call)) for node in graph.operators()}
    returned = {value for _, value in graph.outputs}
    for node in graph.operators():
        mine = around[node.key]
        for call in mine:
            inputs.setdefault(call, {})
            outputs.setdefault(call, {})
        for value in [*graph.operands(node.key), *graph.captured(node.key)]:
            if value is None or isinstance(graph.node(value.node), (Constant, Parameter)):
                continue
            for call in mine - around.get(value.node, set()):
                inputs[call][value] = None
        for index in range(len(node.types)):
            value = Value(node.key, index)
            if value in returned:
                escaping = mine
            else:
                users = [
                    around[user] for user, _ in graph.users(value) if isinstance(graph.node(user), Operator)
                ]
                escaping = mine - set.intersection(*users) if users else set()
            for call in escaping:
                outputs[call][value] = None
    return {
        call: (list(inputs[call]), sorted(outputs[call], key=lambda v: (position[v.node], v.output)))
        for call in sorted(inputs)
    }
