"""dissolve-calls: a call that cannot be one step of its caller becomes steps of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ....ir import Graph
from ....passes.base import Change, Pass
from ..modules.contraction import Contraction
from ..regions import add_region, is_region


@dataclass(frozen=True)
class DissolveCalls(Pass):
    """Inline a call that cannot be one step of its caller.

    What it does:
        Finds calls out of which data goes and comes back in, and calls of one module that take, do or return
        different things, and makes their operators and calls those of their caller, until there is none.

    Why:
        A module is a class with one `construct`: one list of arguments, one list of results.

    Leaves alone:
        Calls that are a step of their caller.

    Refuses:
        Nothing.

    Example:
        >>> from regraft.ir import parse
        >>> graph = parse('''
        ... graph main {
        ...   module "" Net
        ...   module "block" Block
        ...   %x = input "x" : f32[N,4]
        ...   %0 = Relu(%x) : f32[N,4] @ "block#1"
        ...   %1 = Neg(%0) : f32[N,4] @ "#1"
        ...   %y = Add(%0, %1) : f32[N,4] @ "block#1"
        ...   return "y" = %y
        ... }''')
        >>> for change in DissolveCalls().run(graph):
        ...     print(change)
        MS121 its steps are its caller's - at block#1
    """

    name: ClassVar[str] = "dissolve-calls"
    codes: ClassVar[dict[str, str]] = {"MS121": "a call that cannot be one step of its caller is inlined"}

    def run(self, graph: Graph) -> list[Change]:
        """Dissolve; see the class."""
        changes: list[Change] = []
        while odd := Contraction(graph).odd:
            names = graph.modules.call_names()
            for key in odd:
                changes.append(Change("MS121", "its steps are its caller's", names[key]))
                _dissolve(graph, key)
        return changes


def _dissolve(graph: Graph, key: int) -> None:
    """Make the steps of a call steps of its caller; a region gets a module of its own instead."""
    tree = graph.modules
    parent = tree.call(key).parent
    assert parent is not None
    around = tree.call(parent).module
    if is_region(tree, tree.call(key).module):
        tree.replace_call(key, module=_add_region_again(graph, key, around), parent=parent)
        return
    for node in graph.operators():
        if node.call == key:
            node.call = parent
    for call in tree.calls():
        if call.parent == key:
            apart = is_region(tree, call.module)
            module = _add_region_again(graph, call.key, around) if apart else call.module
            tree.replace_call(call.key, module=module, parent=parent)
    tree.remove_call(key)


def _add_region_again(graph: Graph, call: int, around: int) -> int:
    """Add another module for a region."""
    tree = graph.modules
    name = tree.path(tree.call(call).module).rpartition(".")[2].rstrip("0123456789")
    return add_region(tree, around, name or "body")
