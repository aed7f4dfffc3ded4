"""call-idle-leaves: an operator on the parameters of a leaf that is never called becomes the leaf's call."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from ....ir import Graph, Operator, Parameter
from ....passes.base import Change, Pass
from ....passes.places import Places
from ..regions import home_of


@dataclass(frozen=True)
class CallIdleLeaves(Pass):
    """Make an operator the call of the leaf whose parameters it reads.

    What it does:
        Where all parameters that an operator reads are those of one leaf below the operator's own module, and
        that leaf is never called and no other operator reads them so, the operator becomes the leaf's call.

    Why:
        `F.linear(x, self.proj.weight)` is then `self.proj(x)`, which is what it computes.

    Leaves alone:
        Leaves that are called, leaves whose parameters several operators read, and parameters of the module
        itself.

    Refuses:
        Nothing.

    Example:
        >>> from regraft.ir import parse
        >>> graph = parse('''
        ... graph main {
        ...   module "" Net
        ...   module "proj" Linear {weight=%0} never called
        ...   %x = input "x" : f32[N,4]
        ...   %0 = param "proj.weight" : f32[2,4]
        ...   %y = regraft.Linear(%x, %0) : f32[N,2] @ "#1"
        ...   return "y" = %y
        ... }''')
        >>> for change in CallIdleLeaves().run(graph):
        ...     print(change)
        MS116 is a call of `proj` - at `regraft.Linear`
    """

    name: ClassVar[str] = "call-idle-leaves"
    codes: ClassVar[dict[str, str]] = {"MS116": "an operator on a leaf's parameters is the leaf's call"}

    def run(self, graph: Graph) -> list[Change]:
        """Make the calls; see the class."""
        tree, places = graph.modules, Places(graph)
        candidates = list(_candidates(graph))
        leaves = [leaf for _, leaf in candidates]
        changes: list[Change] = []
        for node, leaf in candidates:
            if leaves.count(leaf) == 1:
                text = f"is a call of `{tree.path(leaf)}`"
                changes.append(Change("MS116", text, places.of(graph, node.key)))
                node.call = tree.add_call(leaf, node.call)
        return changes


def _candidates(graph: Graph) -> Iterator[tuple[Operator, int]]:
    """Yield (operator, leaf) where the leaf is never called and holds all of the operator's parameters."""
    tree = graph.modules
    called = {c.module for c in tree.calls()}
    owners: dict[int, list[int]] = {}
    for module in tree:
        for key in module.parameters.values():
            owners.setdefault(key, []).append(module.key)
    for node in graph.operators():
        keys = [v.node for v in graph.operands(node.key) if v and isinstance(graph.node(v.node), Parameter)]
        if not keys or node.call is None:
            continue
        module = home_of(tree, tree.call(node.call).module)
        common = set.intersection(*(set(owners.get(k, [])) for k in keys)) - {module}
        if len(common) == 1 and not any(module in owners.get(k, []) for k in keys):
            (leaf,) = common
            if leaf not in called and not tree.module(leaf).children and leaf in tree.below(module):
                yield node, leaf
