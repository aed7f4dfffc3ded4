"""register-called-leaves: a stateless leaf is registered where it is called."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ....ir import Graph, Module, ModuleTree
from ....passes.base import Change, Pass
from ..regions import home_of, is_leaf, is_region, move_regions


@dataclass(frozen=True)
class RegisterCalledLeaves(Pass):
    """Register a stateless leaf in the module that calls it.

    What it does:
        Gives a module that calls a leaf without parameters, and does not contain it, a leaf of its own.
        Registers again the members that a sequence has lost, such as the second of two equal `act`.

    Why:
        A layer that is shared by reference (a global, an attribute of another module) is constructed by the
        class that calls it.

    Leaves alone:
        Leaves with parameters, modules with children, and leaves that the caller reaches in a module that
        nothing calls, such as a dict.

    Refuses:
        Nothing.

    Example:
        >>> from regraft.ir import parse
        >>> graph = parse('''
        ... graph main {
        ...   module "" Net
        ...   module "act" ReLU called from ["block#1"]
        ...   module "block" Block
        ...   %x = input "x" : f32[N,4]
        ...   %y = Relu(%x) : f32[N,4] @ "act#1"
        ...   return "y" = %y
        ... }''')
        >>> for change in RegisterCalledLeaves().run(graph):
        ...     print(change)
        MS118 its caller has one of its own, `act` - at block
    """

    name: ClassVar[str] = "register-called-leaves"
    codes: ClassVar[dict[str, str]] = {"MS118": "a stateless layer is registered where it is called"}

    def run(self, graph: Graph) -> list[Change]:
        """Register; see the class."""
        tree = graph.modules
        changes: list[Change] = []
        for module in list(tree):
            if module.container == "sequential" and (filled := _fill_sequence(tree, module)):
                changes.append(Change("MS118", f"{filled} places have their own", tree.path(module.key)))
        for key in [call.key for call in tree.calls()]:
            call = tree.call(key)
            leaf = tree.module(call.module)
            stateless = is_leaf(tree, leaf.key) and not leaf.parameters and not is_region(tree, leaf.key)
            if call.parent is None or not stateless:
                continue
            parent = tree.module(home_of(tree, tree.call(call.parent).module))
            if _holds(tree, parent, call.module):
                continue
            name = _free_name(tree, call.module, parent)
            twin = tree.add(leaf.class_name, parent.key, name)
            made: dict[tuple[int, int], int] = {}
            for other in tree.calls(leaf.key):
                if other.parent is not None and home_of(tree, tree.call(other.parent).module) == parent.key:
                    tree.replace_call(other.key, module=twin, parent=other.parent)
                    if leaf.children:
                        move_regions(tree, other.key, made)
            changes.append(Change("MS118", f"its caller has one of its own, `{name}`", tree.path(parent.key)))
        return changes


def _holds(tree: ModuleTree, parent: Module, leaf: int) -> bool:
    """Whether a module contains a leaf, directly or in modules that nothing calls, such as a dict."""
    inside = parent.children.values()
    return leaf in inside or any(_holds(tree, tree.module(m), leaf) for m in inside if not tree.calls(m))


def _free_name(tree: ModuleTree, leaf: int, parent: Module) -> str:
    base = tree.path(leaf).rpartition(".")[2]
    return next(n for n in (base, *(f"{base}{i}" for i in range(2, 1000))) if n not in parent.children)


def _fill_sequence(tree: ModuleTree, module: Module) -> int:
    """Register again the second `act` of ``Sequential(a, act, b, act)``, which an earlier pass removed.

    Returns:
        How many places were filled.
    """
    if not all(name.isdigit() for name in module.children):
        return 0
    filled = 0
    for call in tree.calls(module.key):
        position = 0
        for inner in [c for c in tree.calls() if c.parent == call.key]:
            while (found := module.children.get(str(position))) is not None and not tree.calls(found):
                position += 1
            leaf = tree.module(inner.module)
            if found is not None and found != inner.module:
                twin_of = tree.module(found)
                if (
                    leaf.children
                    or leaf.parameters
                    or twin_of.parameters
                    or twin_of.class_name != leaf.class_name
                ):
                    return filled
                tree.replace_call(inner.key, module=found, parent=inner.parent)
                filled += 1
            elif found is None:
                if leaf.children or leaf.parameters:
                    return filled
                twin = tree.add(leaf.class_name, module.key, str(position))
                tree.replace_call(inner.key, module=twin, parent=inner.parent)
                filled += 1
            position += 1
    module.children = dict(sorted(module.children.items(), key=lambda item: int(item[0])))
    return filled
