"""Decides which modules are written, where, and which of them declares each parameter."""

from __future__ import annotations

from ....ir import Graph, Parameter, Value
from ....passes.deduplicate_modules import holds_parameters
from ..regions import is_region
from .contraction import Body, Contraction, given_value, prefixes


class ModulePlan:
    """The modules of a graph that are written.

    Args:
        graph: the graph.
        contraction: the bodies of its calls.
        keeps_unread: whether modules that hold saved parameters are written though no operator reads them.

    Attributes:
        used: keys of the modules that are needed.
        bodies: module -> the body of its first call.
        paths: module -> its path in the source.
        position: module -> its place in the order in which the framework will walk the modules.
        declared: parameter -> modules that declare it, in that order; the others are tied to the first.
        tied: (parameter, the first of these, another one).
        places: module -> where it is written: the nearest class around it, and its path in that.
    """

    def __init__(self, graph: Graph, contraction: Contraction, *, keeps_unread: bool = False) -> None:
        self.graph, self.tree, self.contraction = graph, graph.modules, contraction
        self._saved = self._find_saved() if keeps_unread else {}
        self.used = contraction.used | set().union(*map(self._and_above, self._saved))
        self.paths = {m.key: self.tree.path(m.key) for m in self.tree}
        self._aliases = self._find_aliases() if keeps_unread else {}
        self.used |= set().union(*map(self._and_above, self._aliases))
        self._bodies: dict[int, list[Body]] = {}
        for body in contraction.bodies.values():
            self._bodies.setdefault(body.module, []).append(body)
        self.bodies = {module: found[0] for module, found in self._bodies.items()}
        self.position = {key: at for at, key in enumerate(self._walk())}
        self._owners = {child: key for key in self.position for _, child in self.children(key)}
        self.declared = self._find_declaring()
        self.tied = [
            (key, first, other) for key, (first, *others) in self.declared.items() for other in others
        ]
        self.places = {key: self._place_of(key) for key in self.position}

    def _find_saved(self) -> dict[int, list[int]]:
        """Return module -> the parameters that it holds in checkpoints of the source."""
        saved = {p.key for p in self.graph.parameters() if p.role != "non_persistent"}
        held = {m.key: [key for key in m.parameters.values() if key in saved] for m in self.tree}
        return {module: keys for module, keys in held.items() if keys}

    def is_idle(self, module: int) -> bool:
        """Whether neither a module nor any in it ever runs."""
        return not any(self.tree.calls(key) for key in (module, *self.tree.below(module)))

    def saved(self, module: int) -> list[tuple[str, int]]:
        """Return (attribute, parameter) of what a module holds for checkpoints of the source, read or not."""
        saved = self._saved.get(module, ())
        return [(name, key) for name, key in self.tree.module(module).parameters.items() if key in saved]

    def _and_above(self, module: int) -> set[int]:
        """Return the modules on the canonical path to a module, itself included."""
        path = self.tree.path(module)
        found = map(self.tree.find, (path, *prefixes(path)))
        return {each.key for each in found if each is not None}

    def _walk(self) -> list[int]:
        """Return emitted modules, each before those that it holds, which is how a framework walks them."""
        out: list[int] = []
        stack = [0]
        while stack:
            key = stack.pop()
            out.append(key)
            stack.extend(reversed([c for _, c in self.children(key)]))
        return out

    def named_children(self, key: int) -> dict[str, int]:
        """Return name -> child of a module, without regions."""
        children = self.tree.module(key).children
        return {name: child for name, child in children.items() if not is_region(self.tree, child)}

    def children(self, key: int) -> list[tuple[str, int]]:
        """Return (name, child) of the children written in this module: used, and canonical here."""
        above = self.paths[key]
        return [
            (name, child)
            for name, child in self.named_children(key).items()
            if child in self.used and self.paths[child] == (f"{above}.{name}" if above else name)
        ]

    def aliases(self, key: int) -> dict[str, int]:
        """Return name -> child of the further registrations in a module, of what is written elsewhere."""
        return self._aliases.get(key, {})

    def _find_aliases(self) -> dict[int, dict[str, int]]:
        """Return module -> its registrations that are not canonical, of what names parameters."""
        found: dict[int, dict[str, int]] = {}
        for module in self.tree:
            above = self.paths[module.key]
            for name, child in self.named_children(module.key).items():
                first = self.paths[child] == (f"{above}.{name}" if above else name)
                if first or child not in self.used or module.key in (child, *self.tree.below(child)):
                    continue
                if holds_parameters(self.tree, child):
                    found.setdefault(module.key, {})[name] = child
        return found

    def shared(self) -> list[list[tuple[int, str]]]:
        """Return for each module of several registrations (module, name) of them, in the source's order."""
        found: dict[int, list[tuple[int, str]]] = {}
        further = {child for children in self._aliases.values() for child in children.values()}
        for key in self.position if further else ():
            for name, child in self.registered(key):
                if child in further:
                    found.setdefault(child, []).append((key, name))
        return list(found.values())

    def registered(self, key: int) -> list[tuple[str, int]]:
        """Return (name, child) of all that a module constructs or is given, in the source's order."""
        here = {*self.children(key), *self.aliases(key).items()}
        return [pair for pair in self.named_children(key).items() if pair in here]

    def _find_declaring(self) -> dict[int, list[int]]:
        """Return parameter key -> modules that declare it, in walking order; the first one owns it."""
        found: dict[int, set[int]] = {}
        for body in self.contraction.bodies.values():
            read: list[Value | None] = list(body.outputs)
            for kind, key in body.items:
                read += self.graph.operands(key) if kind == "op" else self.contraction.bodies[key].inputs
            for value in read:
                if value is not None and isinstance(self.graph.node(value.node), Parameter):
                    holder = self.contraction.holder(body.module, value.node)
                    if holder is not None:
                        found.setdefault(value.node, set()).add(holder)
        for module, keys in self._saved.items():
            for key in keys:
                found.setdefault(key, set()).add(module)
        return {
            p: sorted(ms, key=lambda m: self.position.get(m, len(self.position))) for p, ms in found.items()
        }

    def above(self, key: int) -> list[int]:
        """Return a module, the one that contains it, and so on up to the root."""
        out = [key]
        while out[-1] in self._owners:
            out.append(self._owners[out[-1]])
        return out

    def _place_of(self, key: int) -> tuple[str, str]:
        path = ""
        for above in self.above(key)[1:]:
            path = self.paths[key].removeprefix(self.paths[above])
            if self.tree.module(above).container is None:
                return self.tree.module(above).class_name, path
        return "", self.paths[key]

    def input_names(self, module: int) -> list[str]:
        """Return names of a module's arguments: the source's, or of graph inputs that every call is given."""
        bodies = self._bodies.get(module, [])
        calls = [body.call for body in bodies]
        found: list[str] = []
        for group in zip(*(body.inputs for body in bodies), strict=True):
            known = self.contraction.source_argument(calls, group)
            names = {known[1]} if known else set(map(self.input_name, group))
            found.append(names.pop() if len(names) == 1 else "")
        return found

    def input_name(self, value: Value) -> str:
        """Return the name of an input of the graph; empty for any other value."""
        node = self.graph.node(given_value(self.graph, value).node)
        return getattr(node, "name", "") if node.key in self.graph.inputs else ""
