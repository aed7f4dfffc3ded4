"""Orders modules by level: those of one level may become one class."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import networkx as nx

from ....ir import ModuleTree
from ..regions import home_of

Children = Callable[[int], Sequence[tuple[str, int]]]
"""(name, child) of the modules emitted in a module."""


def sort_into_levels(tree: ModuleTree, emitted: Iterable[int], children: Children) -> list[list[int]]:
    """Return emitted modules in levels, callees first; modules of one level may share a class.

    Args:
        tree: the graph's modules.
        emitted: keys of those that are emitted, in walking order.
        children: children of each of them.
    """
    keys = list(emitted)
    needs: nx.DiGraph = nx.DiGraph()
    for key in keys:
        needs.add_node(key)
        needs.add_edges_from((child, key) for _, child in children(key))
    for call in tree.calls():
        if call.parent is not None:
            inner, outer = (home_of(tree, m) for m in (call.module, tree.call(call.parent).module))
            needs.add_edges_from([(inner, outer)] if inner != outer else [])
    level = _align_levels(tree, needs, children)
    rows: list[list[int]] = [[] for _ in range(max(level.values()) + 1)]
    for key in keys:
        rows[level[key]].append(key)
    return rows


def _align_levels(tree: ModuleTree, needs: nx.DiGraph, children: Children) -> dict[int, int]:
    """Return module -> level; modules of one source class share one, unless one contains another."""
    order = list(nx.topological_sort(needs))
    plain = {key: at for at, keys in enumerate(nx.topological_generations(needs)) for key in keys}
    classes: dict[str, list[int]] = {}
    for key in order:
        module = tree.module(key)
        if module.container is None and children(key):
            classes.setdefault(module.class_name, []).append(key)
    for name, keys in list(classes.items()):
        if any(nx.descendants(needs, key) & set(keys) for key in keys):
            del classes[name]
    level = dict(plain)
    for _ in range(len(order)):
        before = dict(level)
        for keys in classes.values():
            level.update(dict.fromkeys(keys, max(level[k] for k in keys)))
        for key in order:
            level[key] = max([level[key], *(level[n] + 1 for n in needs.predecessors(key))])
        if level == before:
            return level
        if max(level.values()) > 2 * len(order):
            break
    return plain
