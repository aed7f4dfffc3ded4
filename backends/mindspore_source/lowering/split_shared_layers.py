"""Stateless leaves that the source registers once and calls in many places: each place gets its own."""

from __future__ import annotations

from ....ir import Module, ModuleTree
from .lower_control_flow import home, is_region


def split_stateless(tree: ModuleTree) -> None:
    """A stateless leaf registered several times (`act = ReLU()` shared by blocks) becomes several."""
    places: dict[int, list[tuple[int, str]]] = {}
    for module in tree:
        for name, child in module.children.items():
            places.setdefault(child, []).append((module.key, name))
    for key, registered in places.items():
        leaf = tree.module(key)
        if len(registered) < 2 or leaf.children or leaf.parameters:
            continue
        turns: dict[int | None, int] = {}
        pending: list[tuple[int, int, int]] = []
        for call in tree.calls(key):
            parent = home(tree, tree.call(call.parent).module) if call.parent is not None else -1
            names = [i for i, (owner, _) in enumerate(registered) if owner == parent]
            if names:
                turn = turns.get(call.parent, 0)
                turns[call.parent] = turn + 1
                pending.append((call.key, call.parent or 0, names[turn % len(names)]))
        twins = {}
        for at, (owner, name) in enumerate(registered):
            if any(place == at for _, _, place in pending) or at == 0:
                twins[at] = tree.add(leaf.class_name, location=leaf.location)
                tree.register(owner, name, twins[at])
        for call, parent, place in pending:
            tree.replace_call(call, module=twins[place], parent=parent)


def refill(tree: ModuleTree) -> None:
    """A stateless leaf called where it is not registered (any more) becomes one of its caller's own."""
    for module in list(tree):
        if module.container == "sequential":
            _refill_sequence(tree, module)
    for call in tree.calls():
        leaf = tree.module(call.module)
        if call.parent is None or leaf.children or leaf.parameters or is_region(tree, leaf.key):
            continue
        parent = tree.module(home(tree, tree.call(call.parent).module))
        if call.module in parent.children.values():
            continue
        base = tree.path(call.module).rpartition(".")[2]
        name = next(n for n in (base, *(f"{base}{i}" for i in range(2, 1000))) if n not in parent.children)
        twin = tree.add(leaf.class_name, parent.key, name)
        for other in tree.calls(leaf.key):
            if other.parent is not None and home(tree, tree.call(other.parent).module) == parent.key:
                tree.replace_call(other.key, module=twin, parent=other.parent)


def _refill_sequence(tree: ModuleTree, module: Module) -> None:
    """``Sequential(a, act, b, act)`` whose second `act` is no registration any more gets one again."""
    if not all(name.isdigit() for name in module.children):
        return
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
                    return
                tree.replace_call(inner.key, module=found, parent=inner.parent)
            elif found is None:
                if leaf.children or leaf.parameters:
                    return
                twin = tree.add(leaf.class_name, module.key, str(position))
                tree.replace_call(inner.key, module=twin, parent=inner.parent)
            position += 1
    module.children = dict(sorted(module.children.items(), key=lambda item: int(item[0])))
