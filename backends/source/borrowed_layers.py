"""Layers that a sequence and the class around it hold: ``Sequential(self.conv, nn.ReLU())``."""

from __future__ import annotations

from ...ir import Module, ModuleTree
from .names import Names, is_identifier

PLAIN_SEQUENCES = ("Sequential", "SequentialCell", "HybridSequential")
"""Classes that chain their children and are no class of the source's author."""


def borrowed_layers(tree: ModuleTree, key: int, names: Names) -> dict[int, str]:
    """Return child -> attribute of the class around a plain sequence; the sequence may lie in a list there.

    Args:
        tree: the modules.
        key: the sequence.
        names: those that are taken.

    Returns:
        None of the children where any of those that are held elsewhere lies at another place.
    """
    module, path = tree.module(key), tree.path(key)
    if not _is_plain(module):
        return {}
    above, around = path, tree.root
    while above:
        above = above.rpartition(".")[0]
        around = tree.find(above)
        if around is None or not (around.container == "list" or _is_plain(around)):
            break
    if around is None or around.container is not None:
        return {}
    found: dict[int, str] = {}
    for own, child in module.children.items():
        first = tree.path(child)
        if first == f"{path}.{own}":
            continue
        owner, _, attribute = first.rpartition(".")
        if owner != above or names.attribute(attribute) != attribute or not is_identifier(attribute):
            return {}
        found[child] = attribute
    return found


def sort_borrowed(tree: ModuleTree, children: dict[str, int], names: Names) -> dict[str, int]:
    """Return name -> child of a class, each before the sequences that are given it."""
    found: dict[str, int] = {}
    for name, child in children.items():
        below = [child, *tree.below(child)] if tree.module(child).container is not None else []
        for attribute in (a for inner in below for a in borrowed_layers(tree, inner, names).values()):
            if attribute in children:
                found.setdefault(attribute, children[attribute])
        found.setdefault(name, child)
    return found


def _is_plain(module: Module) -> bool:
    return module.container == "sequential" and module.class_name in PLAIN_SEQUENCES
