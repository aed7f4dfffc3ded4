"""split-shared-layers: a stateless leaf that is registered in many places becomes one for each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ....ir import Graph, ModuleTree
from ....passes.base import Change, Pass
from ..regions import home_of, is_leaf, move_regions


@dataclass(frozen=True)
class SplitSharedLayers(Pass):
    """Give each place of a stateless leaf its own instance.

    What it does:
        Makes of a leaf without parameters that is registered several times (`act = ReLU()` given to every
        block) as many modules as there are places that call it; each call is of its caller's.

    Why:
        A class constructs its own layers; one that is given another's would take it as an argument.

    Leaves alone:
        Leaves with parameters, which are shared for a reason, and modules with children.

    Refuses:
        Nothing.

    Example:
        >>> from regraft.ir import parse
        >>> graph = parse('''
        ... graph main {
        ...   module "" Net
        ...   module "a" Block
        ...   module "a.act" ReLU called from ["a#1", "b#1"]
        ...   module "b" Block
        ...   module "b.act" = "a.act"
        ...   %x = input "x" : f32[N,4]
        ...   %0 = Relu(%x) : f32[N,4] @ "a.act#1"
        ...   %y = Relu(%0) : f32[N,4] @ "a.act#2"
        ...   return "y" = %y
        ... }''')
        >>> for change in SplitSharedLayers().run(graph):
        ...     print(change)
        MS119 each of 2 places has one of its own - at a.act
    """

    name: ClassVar[str] = "split-shared-layers"
    codes: ClassVar[dict[str, str]] = {"MS119": "a stateless layer of several places becomes several"}

    def run(self, graph: Graph) -> list[Change]:
        """Split; see the class."""
        tree = graph.modules
        places: dict[int, list[tuple[int, str]]] = {}
        for module in tree:
            for name, child in module.children.items():
                places.setdefault(child, []).append((module.key, name))
        shared = [
            (key, registered)
            for key, registered in places.items()
            if len(registered) > 1 and is_leaf(tree, key) and not tree.module(key).parameters
        ]
        changes: list[Change] = []
        for key, registered in shared:
            path, twins = tree.path(key), _split(tree, key, registered)
            if twins:
                changes.append(Change("MS119", f"each of {twins} places has one of its own", path))
        return changes


def _split(tree: ModuleTree, key: int, registered: list[tuple[int, str]]) -> int:
    """Make copies of a leaf for the places that call it; returns how many, 0 if it is never called there."""
    leaf = tree.module(key)
    turns: dict[int | None, int] = {}
    pending: list[tuple[int, int, int]] = []
    for call in tree.calls(key):
        parent = home_of(tree, tree.call(call.parent).module) if call.parent is not None else -1
        names = [i for i, (owner, _) in enumerate(registered) if owner == parent]
        if names:
            turn = turns.get(call.parent, 0)
            turns[call.parent] = turn + 1
            pending.append((call.key, call.parent or 0, names[turn % len(names)]))
    if not pending:
        return 0
    twins: dict[int, int] = {}
    for at, (owner, name) in enumerate(registered):
        if any(place == at for _, _, place in pending) or at == 0:
            twins[at] = tree.add(leaf.class_name, location=leaf.location)
            tree.register(owner, name, twins[at])
    made: dict[tuple[int, int], int] = {}
    for call, parent, place in pending:
        tree.replace_call(call, module=twins[place], parent=parent)
        if leaf.children:
            move_regions(tree, call, made)
    return len(twins)
