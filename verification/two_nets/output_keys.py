"""Pairs the outputs of two nets by their keys, where both name them, and finds outputs that are exchanged."""

from __future__ import annotations

from ...ir import Graph
from ..causes.values import are_close, is_plain
from ..runners.runs import Run
from .attributes import AttributeRow
from .remedies import body_of

_CLOSE = 1e-3
"""Distance of equal outputs as a share of the largest value."""


def find_order(source: Graph, target: Graph) -> list[int]:
    """Return the place in the target of each output of the source; none where they are paired as they are.

    That is where a side names its outputs by their places alone, or where the names are not the same.
    """
    mine, theirs = ([name for name, _ in graph.outputs] for graph in (source, target))
    keyed = source.origin.keyed and target.origin.keyed
    if not keyed or mine == theirs or sorted(mine) != sorted(theirs):
        return []
    return [theirs.index(name) for name in mine]


def find_exchanged(source: Run, target: Run, graph: Graph) -> AttributeRow | None:
    """Return outputs that are right but in each other's place, as a setting; None where others are wrong too.

    Args:
        source: the source's run.
        target: the target's, with its outputs in the source's order.
        graph: the target's.
    """
    if len(source.outputs) != len(target.outputs):
        return None
    pairs = list(zip(source.outputs, target.outputs, strict=True))
    wrong = [at for at, ((_, a), (_, b)) in enumerate(pairs) if not are_close(a, b, _CLOSE)]
    now: list[int] = []
    for at in wrong:
        array = source.outputs[at][1]
        found = [n for n in wrong if are_close(array, target.outputs[n][1], _CLOSE)]
        if len(found) != 1 or is_plain(array):
            return None
        now += found
    if not wrong or sorted(now) != wrong:
        return None
    wanted, given = ([f"`{source.outputs[at][0]}`" for at in places] for places in (now, wrong))
    return AttributeRow(
        "",
        "",
        graph.modules.root.class_name if graph.modules.root is not None else "",
        "outputs",
        tuple(given),
        tuple(wanted),
        statement=", ".join(
            f"as {own} what is {other} now" for own, other in zip(given, wanted, strict=True)
        ),
        place=body_of(graph, ""),
    )
