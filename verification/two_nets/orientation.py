"""Whether a matrix of weights is multiplied as it is or transposed, on either side."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from ...ir import Graph, Operator

if TYPE_CHECKING:
    from .pairing import Pairing

_OUTPUTS, _INPUTS = "(out, in)", "(in, out)"


class Turned(NamedTuple):
    """A matrix that one net multiplies as it is and the other transposed.

    Attributes:
        source: the parameter's name in the source.
        target: its name in the target.
        layer: path of its layer in the target.
        axes: what its axes are in the source, and in the target.
        operator: the target's operator that multiplies with it.
    """

    source: str
    target: str
    layer: str
    axes: tuple[str, str]
    operator: Operator


def turned(pairing: Pairing) -> Iterator[Turned]:
    """Paired square matrices that the source multiplies in one way and the target in the other.

    No shape and no value tells of it: the outputs are merely others. Those that are paired transposed are
    left out.
    """
    owners = {key: layer.path for layer in pairing.target.layers for key in layer.parameters.values()}
    for (mine, theirs), pair in pairing.parameters.items():
        if pair.turned or len(pair.shape) != 2 or pair.shape[0] != pair.shape[1] or pair.shape[0] == 1:
            continue
        sides = [_uses(net.graph, key) for net, key in ((pairing.source, mine), (pairing.target, theirs))]
        if not all(sides):
            continue
        axes = [{axis for axis, _ in side} for side in sides]
        if len(axes[0]) == len(axes[1]) == 1 and axes[0] != axes[1]:
            found = (axes[0].pop(), axes[1].pop())
            yield Turned(pair.source, pair.target, owners.get(theirs, ""), found, sides[1][0][1])


def is_turned(source: Graph, mine: int, target: Graph, theirs: int) -> bool:
    """Whether the source multiplies a matrix in one way everywhere, and the target its own in the other."""
    axes = [{axis for axis, _ in _uses(graph, key)} for graph, key in ((source, mine), (target, theirs))]
    return len(axes[0]) == len(axes[1]) == 1 and axes[0] != axes[1]


def _uses(graph: Graph, key: int) -> list[tuple[str, Operator]]:
    """(what its axes are, the product) of every use of a matrix; empty where some use is no product."""
    found: list[tuple[str, Operator]] = []
    waiting = [(key, False)]
    while waiting:
        node, is_turned = waiting.pop()
        for user in dict.fromkeys(graph.flow.succ[node]):
            operator = graph.node(user)
            if not isinstance(operator, Operator):
                return []
            operands = [None if v is None else v.node for v in graph.operands(user)]
            if operator.op_type == "Transpose" and operator.ints("perm") in ([1, 0], []):
                waiting.append((user, not is_turned))
                continue
            if operator.op_type in ("Identity", "Cast") and not operator.domain:
                waiting.append((user, is_turned))
                continue
            if operator.op_type not in ("MatMul", "Gemm", "Linear") or operands[1:2] != [node]:
                return []
            by_outputs = operator.op_type == "Linear" or (
                operator.op_type == "Gemm" and bool(operator.int("transB"))
            )
            found.append((_OUTPUTS if by_outputs != is_turned else _INPUTS, operator))
    return found
