"""Pairs the modules of two nets, given the pairs of their layers: by name, by contents, leaves by class."""

from __future__ import annotations

from ...ir import ModuleTree
from .layers import Net
from .pair_map import PairMap
from .pairing import Pairing


def module_pairs(pairing: Pairing, mapping: PairMap | None = None) -> dict[str, str]:
    """Path of a module in the source -> in the target; the roots are a pair."""
    return _Modules(pairing, mapping or PairMap()).found


class _Modules:
    def __init__(self, pairing: Pairing, mapping: PairMap) -> None:
        self.pairing = pairing
        self.trees = [net.graph.modules for net in (pairing.source, pairing.target)]
        self.paths = [[tree.path(m.key) for m in tree] for tree in self.trees]
        self.contents = self._contents()
        self.found: dict[str, str] = {"": ""}
        for source, target in [*pairing.layers.items(), *mapping.pairs.items()]:
            if source in self.paths[0] and target in self.paths[1]:
                self._join(source, target)
        self._by_name()
        self._by_contents()
        self._leaves()

    def _contents(self) -> list[dict[str, frozenset[str]]]:
        """Per side: path of a module -> the paired layers in it, by their paths in the source."""
        back = {target: source for source, target in self.pairing.layers.items()}
        nets: list[tuple[Net, dict[str, str]]] = [
            (self.pairing.source, {path: path for path in self.pairing.layers}),
            (self.pairing.target, back),
        ]
        out: list[dict[str, frozenset[str]]] = []
        for paths, (net, names) in zip(self.paths, nets, strict=True):
            held: dict[str, set[str]] = {path: set() for path in paths}
            for layer in net.layers:
                path = layer.path
                while layer.path in names and path:
                    path = path.rpartition(".")[0]
                    if path in held:
                        held[path].add(names[layer.path])
            out.append({path: frozenset(layers) for path, layers in held.items()})
        return out

    def _join(self, source: str, target: str) -> None:
        if source not in self.found and target not in self.found.values():
            self.found[source] = target

    def _by_name(self) -> None:
        for path in self.paths[0]:
            if path in self.contents[1] and self.contents[0][path] == self.contents[1][path]:
                self._join(path, path)

    def _by_contents(self) -> None:
        """Modules around the same layers; of several in one another the outermost are a pair."""
        groups: list[dict[frozenset[str], list[str]]] = [{}, {}]
        taken = set(self.found.values())
        for side in (0, 1):
            for path, layers in self.contents[side].items():
                if layers and path not in (self.found if side == 0 else taken):
                    groups[side].setdefault(layers, []).append(path)
        for layers, paths in groups[0].items():
            for source, target in zip(paths, groups[1].get(layers, []), strict=False):
                self._join(source, target)

    def _leaves(self) -> None:
        """Modules without parameters or children: those of one class in one pair, in the order of calls."""
        leaves = [_leaves(tree) for tree in self.trees]
        taken = set(self.found.values())
        for parent, other in list(self.found.items()):
            mine = [(c, p) for c, p in leaves[0].get(parent, ()) if p not in self.found]
            theirs = [(c, p) for c, p in leaves[1].get(other, ()) if p not in taken]
            for cls in dict.fromkeys(c for c, _ in mine):
                paths = [[p for c, p in side if c == cls] for side in (mine, theirs)]
                if len(paths[0]) == len(paths[1]):
                    for source, target in zip(*paths, strict=True):
                        self._join(source, target)


def _leaves(tree: ModuleTree) -> dict[str, list[tuple[str, str]]]:
    """Path of a module -> (class, path) of the called leaves in it, containers looked through."""
    first: dict[int, int] = {}
    for at, call in enumerate(tree.calls()):
        first.setdefault(call.module, at)
    found: dict[str, list[tuple[int, str, str]]] = {}
    for module in tree:
        path = tree.path(module.key)
        if module.children or module.parameters or not path or module.key not in first:
            continue
        name = module.class_name
        leaf = (first[module.key], name if module.namesake else _CLASSES.get(name, name), path)
        above = path.rpartition(".")[0]
        while above and (holder := tree.find(above)) is not None and holder.container is not None:
            found.setdefault(above, []).append(leaf)
            above = above.rpartition(".")[0]
        found.setdefault(above, []).append(leaf)
    return {path: [(c, p) for _, c, p in sorted(leaves)] for path, leaves in found.items()}


_CLASSES = {
    "FastGelu": "GELU",
    "HSigmoid": "Hardsigmoid",
    "HSwish": "Hardswish",
    "Swish": "SiLU",
}
"""Class of a layer -> the name under which both frameworks' classes meet."""
