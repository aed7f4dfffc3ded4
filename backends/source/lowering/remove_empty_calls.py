"""remove-empty-calls: calls in which nothing is computed go away."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ....ir import Graph
from ....passes.base import Change, Pass


@dataclass(frozen=True)
class RemoveEmptyCalls(Pass):
    """Remove calls that no operator is in.

    What it does:
        Removes every call, but the root's, in which no operator is, nor in a call made in it.

    Why:
        A module that gives back what it was given has no step in its caller's `construct`.

    Leaves alone:
        The modules: they stay registered.

    Refuses:
        Nothing.

    Example:
        >>> from regraft.ir import parse
        >>> graph = parse('''
        ... graph main {
        ...   module "" Net
        ...   module "drop" Dropout
        ...   %x = input "x" : f32[N,4]
        ...   %y = Relu(%x) : f32[N,4] @ "#1"
        ...   return "y" = %y
        ... }''')
        >>> for change in RemoveEmptyCalls().run(graph):
        ...     print(change)
        MS117 its call computes nothing - at drop#1
    """

    name: ClassVar[str] = "remove-empty-calls"
    codes: ClassVar[dict[str, str]] = {"MS117": "a call that computes nothing is removed"}

    def run(self, graph: Graph) -> list[Change]:
        """Remove; see the class."""
        tree = graph.modules
        busy = {c for node in graph.operators() for c in tree.ancestors(node.call)}
        empty = [c.key for c in tree.calls() if c.key not in busy and c.parent is not None]
        if not empty:
            return []
        names = tree.call_names()
        for key in reversed(empty):
            tree.remove_call(key)
        return [Change("MS117", "its call computes nothing", names[key]) for key in empty]
