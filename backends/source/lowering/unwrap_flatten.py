"""unwrap-flatten: the flatten in MXNet's FullyConnected moves to its caller."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ....ir import Graph
from ....passes.base import Change, Pass
from ....passes.places import Places


@dataclass(frozen=True)
class UnwrapFlatten(Pass):
    """Move the flatten in MXNet's FullyConnected to its caller.

    What it does:
        Makes a Flatten in a call of a module of class FullyConnected an operator of the caller.

    Why:
        What stays is one matrix product, which is nn.Dense.

    Leaves alone:
        Every other module.

    Refuses:
        Nothing.

    Example:
        >>> from regraft.ir import parse
        >>> graph = parse('''
        ... graph main {
        ...   module "" Net
        ...   module "fc1" FullyConnected {weight=%1}
        ...   %x = input "x" : f32[N,2,2]
        ...   %0 = Flatten(%x) : f32[N,4] @ "fc1#1"
        ...   %1 = param "fc1.weight" : f32[3,4]
        ...   %y = regraft.Linear(%0, %1) : f32[N,3] @ "fc1#1"
        ...   return "y" = %y
        ... }''')
        >>> for change in UnwrapFlatten().run(graph):
        ...     print(change)
        MS114 is done by the caller - at `Flatten` in `fc1#1`
    """

    name: ClassVar[str] = "unwrap-flatten"
    codes: ClassVar[dict[str, str]] = {"MS114": "a flatten before a layer is its caller's"}

    def run(self, graph: Graph) -> list[Change]:
        """Move; see the class."""
        tree, places = graph.modules, Places(graph)
        changes: list[Change] = []
        for node in graph.operators():
            if node.qualified_name != "Flatten" or node.call is None:
                continue
            call = tree.call(node.call)
            if call.parent is not None and tree.module(call.module).class_name == "FullyConnected":
                changes.append(Change("MS114", "is done by the caller", places.of(graph, node.key)))
                node.call = call.parent
        return changes
