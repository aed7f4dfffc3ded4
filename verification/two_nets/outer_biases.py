"""Finds the parameter that a net adds behind a layer without a bias, in place of the other net's bias."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from math import prod

from ...ir import Graph, Operator, Parameter, Value
from .layers import Layer, Net


def find_outer_biases(
    nets: Sequence[Net],
    held: Sequence[Mapping[str, Layer]],
    layers: Mapping[str, str],
    paired: Iterable[tuple[int, int]],
) -> Iterator[tuple[int, int]]:
    """Yield the keys of a layer's bias and of what the other net adds behind its layer, source first.

    Args:
        nets: both sides, captured.
        held: their layers by path.
        layers: path of a layer in the source -> in the target.
        paired: keys of the parameters that have a counterpart.
    """
    taken = list(paired)
    free = [
        {key for layer in side.values() for key in layer.parameters.values()} - {keys[at] for keys in taken}
        for at, side in enumerate(held)
    ]
    for source, target in layers.items():
        if source not in held[0] or target not in held[1]:
            continue
        roles = held[0][source].parameters, held[1][target].parameters
        if ("bias" in roles[0]) == ("bias" in roles[1]):
            continue
        bare = 1 if "bias" in roles[0] else 0
        own, weight = roles[1 - bare]["bias"], roles[bare].get("weight", roles[bare].get(""))
        if weight is None or own not in free[1 - bare]:
            continue
        other = _find_added(nets[bare].graph, weight, free[bare])
        if other is None:
            continue
        keys = (own, other) if bare else (other, own)
        sizes = {prod(net.parameter(key).data.shape) for net, key in zip(nets, keys, strict=True)}
        if len(sizes) == 1:
            free[bare].discard(other)
            yield keys


def _find_added(graph: Graph, weight: int, among: Collection[int]) -> int | None:
    """Return the key of the parameter that is added to what a layer gives; None without one.

    Args:
        graph: the captured graph.
        weight: the key of the layer's weight.
        among: the keys of the parameters that may be it.
    """
    for result in _results(graph, weight):
        stack, seen = [result], {result}
        while stack:
            value = stack.pop()
            for key, slot in graph.users(value):
                user = graph.node(key)
                if not isinstance(user, Operator) or user.domain:
                    continue
                if user.op_type == "Add":
                    found = _parameter_behind(graph, graph.operands(key)[1 - slot])
                    if found in among:
                        return found
                moved = Value(key)
                if user.traits.moving and len(user.types) == 1 and slot == 0 and moved not in seen:
                    seen.add(moved)
                    stack.append(moved)
    return None


def _results(graph: Graph, weight: int) -> list[Value]:
    """Return what the operators give that compute with a weight, which may be moved before."""
    stack, found = [Value(weight)], list[Value]()
    while stack:
        for key, _ in graph.users(stack.pop()):
            user = graph.node(key)
            if isinstance(user, Operator) and len(user.types) == 1:
                (stack if user.traits.moving else found).append(Value(key))
    return found


def _parameter_behind(graph: Graph, value: Value | None) -> int | None:
    """Return the key of the parameter that a value is, or is moved from; None where it is another one."""
    while value is not None:
        node = graph.node(value.node)
        if isinstance(node, Parameter):
            return node.key
        if not isinstance(node, Operator) or not node.traits.moving or node.op_type == "Concat":
            return None
        value = graph.operands(node.key)[0]
    return None
