"""Replaces a parameter that is a transposed view of another by a Transpose."""

from __future__ import annotations

from ...ir import Builder, Graph, Operator, Parameter, Value


def replace_by_transpose(graph: Graph, gone: Parameter, kept: Parameter, axes: tuple[int, ...]) -> None:
    """Replace every use of `gone` by a Transpose of `kept` in the call that uses it; remove `gone`.

    Args:
        graph: a root graph.
        gone: the parameter to be removed.
        kept: the parameter that holds the values.
        axes: the axes of `kept` that those of `gone` are, in order.
    """
    made: dict[int | None, Value] = {}

    def transpose(call: int | None, location: str = "") -> Value:
        if call not in made:
            builder = Builder(graph, call=call, location=location)
            made[call] = builder.op("Transpose", Value(kept.key), perm=list(axes))
        return made[call]

    for user, slot in graph.users(Value(gone.key)):
        node = graph.node(user)
        if isinstance(node, Operator):
            graph.set_operand(user, slot, transpose(node.call, node.location))
    if graph.is_output(Value(gone.key)):
        root = graph.modules.calls(0) if graph.modules.root is not None else []
        graph.replace_uses(Value(gone.key), transpose(root[0].key if root else None))
    if graph.provenance is not None:
        graph.provenance.tied[gone.key] = kept.key
        graph.provenance.turned[gone.key] = axes
    graph.remove(gone.key)
