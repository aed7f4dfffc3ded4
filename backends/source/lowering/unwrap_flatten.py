"""unwrap-flatten: the flatten in MXNet's FullyConnected moves to its caller."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ....ir import Graph, Operator
from ....passes.pattern import PatternPass


@dataclass(frozen=True)
class UnwrapFlatten(PatternPass):
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
    operators: ClassVar[tuple[str, ...]] = ("Flatten",)

    def rewrite(self, graph: Graph, node: Operator) -> str:
        """Move; see the class."""
        tree = graph.modules
        call = None if node.call is None else tree.call(node.call)
        if call is None or call.parent is None or tree.module(call.module).class_name != "FullyConnected":
            return ""
        node.call = call.parent
        return "is done by the caller"
