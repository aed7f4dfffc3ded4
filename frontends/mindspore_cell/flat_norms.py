"""nn.BatchNorm1d as one operator on its own input: MindSpore compiles it as a plane of one pixel and back."""

from __future__ import annotations

from ...ir import Graph, Operator, Value


def restore_flat_norms(graph: Graph) -> None:
    """Remove the reshape before and the flatten behind a BatchNormalization in a call of nn.BatchNorm1d."""
    tree = graph.modules
    for norm in list(graph.operators()):
        if norm.op_type != "BatchNormalization" or norm.call is None:
            continue
        if tree.module(tree.call(norm.call).module).class_name != "BatchNorm1d":
            continue
        (plane, *_), made = graph.operands(norm.key), Value(norm.key)
        users = graph.users(made)
        if plane is None or len(users) != 1 or graph.is_output(made):
            continue
        before, after = graph.node(plane.node), graph.node(users[0][0])
        if not isinstance(before, Operator) or not isinstance(after, Operator):
            continue
        shaping = {before.op_type, after.op_type} <= {"Reshape", "Flatten", "Unsqueeze", "Squeeze"}
        given = graph.operands(before.key)[0]
        if not shaping or {before.call, after.call} != {norm.call} or given is None:
            continue
        type_ = graph.type_of(given)
        if type_ is None or type_ != graph.type_of(Value(after.key)) or len(type_.shape or ()) != 2:
            continue
        graph.set_operand(norm.key, 0, given)
        norm.types[0] = type_
        graph.replace_uses(Value(after.key), made)
