"""The module tree: which module, under which paths, in which call, each operator came from.

A module called twice is one module with two calls; a module registered under two paths is one module
with two paths; a module registered and never called is there too, with no calls.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, field

CONTAINERS = ("sequential", "list", "dict", "region")
"""Kinds of container: called in order, indexed, looked up by name, or a region.

A region is a nested graph that a backend moved into the graph around it; it is called where its operator is.
"""


@dataclass(slots=True)
class Module:
    """One module object of the source.

    Attributes:
        key: its number in the tree.
        class_name: class in the source, e.g. ``Conv2d``.
        container: None or one of `CONTAINERS`.
        children: attribute name -> module key, in registration order; one key may occur twice.
        parameters: attribute name -> key of the parameter node in the root graph.
        location: where it was registered, e.g. ``net.py:12``; empty when not known.
        arguments: what the source's constructor was given, as far as the frontend knows it.
        namesake: whether its class is not the framework's layer of that name, but another that is called so.
        in_training: whether training calls it, and the inference that was captured does not.
    """

    key: int
    class_name: str
    container: str | None = None
    children: dict[str, int] = field(default_factory=dict[str, int])
    parameters: dict[str, int] = field(default_factory=dict[str, int])
    location: str = ""
    arguments: dict[str, object] = field(default_factory=dict[str, object])
    namesake: bool = False
    in_training: bool = False


@dataclass(frozen=True, slots=True)
class ModuleCall:
    """One call of a module, made in the call `parent` of another (None for the root's own)."""

    key: int
    module: int
    parent: int | None


class ModuleTree:
    """Modules and their calls; keys never change. Module 0 is the root."""

    def __init__(self) -> None:
        self._modules: dict[int, Module] = {}
        self._calls: dict[int, ModuleCall] = {}
        self._next_module = self._next_call = 0
        self._path_cache: dict[int, tuple[str, ...]] | None = None
        self._calls_of: dict[int, list[ModuleCall]] | None = None

    # -- building ------------------------------------------------------------------------------

    def add(
        self,
        class_name: str,
        parent: int | None = None,
        name: str = "",
        *,
        container: str | None = None,
        location: str = "",
        arguments: dict[str, object] | None = None,
        namesake: bool = False,
    ) -> int:
        """Add a module, registered as `name` in `parent` (the root has none); returns its key."""
        assert container is None or container in CONTAINERS, container
        key = self._next_module
        self._next_module += 1
        self._modules[key] = Module(
            key,
            class_name,
            container,
            location=location,
            arguments=dict(arguments or {}),
            namesake=namesake,
        )
        if parent is not None:
            self.register(parent, name, key)
        self._path_cache = None
        return key

    def register(self, parent: int, name: str, child: int) -> None:
        """Register `child` as `name` in `parent`; a module may be registered more than once."""
        if not name or "." in name:
            raise ValueError(f"a module name must not be empty or contain a dot, got `{name}`")
        self._modules[parent].children[name] = child
        self._path_cache = None

    def unregister(self, parent: int, name: str) -> None:
        """Remove one registration; the module itself stays until `prune`."""
        del self._modules[parent].children[name]
        self._path_cache = None

    def add_call(self, module: int, parent: int | None = None) -> int:
        """Add a call of `module` made inside the call `parent`; returns the call's key."""
        key = self._next_call
        self._next_call += 1
        self._calls[key] = ModuleCall(key, module, parent)
        self._path_cache = self._calls_of = None
        return key

    def remove_call(self, key: int) -> None:
        """Remove a call that no node and no other call refers to."""
        del self._calls[key]
        self._path_cache = self._calls_of = None

    def replace_call(self, key: int, *, module: int, parent: int | None) -> None:
        """Make the call `key` one of another module or of another parent."""
        self._calls[key] = ModuleCall(key, module, parent)
        self._path_cache = self._calls_of = None

    def prune(self) -> list[Module]:
        """Remove modules that no path reaches any more; returns them."""
        reached = set(self._walk_keys())
        gone = [m for k, m in self._modules.items() if k not in reached]
        for module in gone:
            del self._modules[module.key]
        for call in [c for c in self._calls.values() if c.module not in self._modules]:
            del self._calls[call.key]
        self._path_cache = self._calls_of = None
        return gone

    # -- reading -------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        """Yield modules in depth-first registration order, each once."""
        return (self._modules[k] for k in self._walk_keys())

    def __contains__(self, key: int) -> bool:
        return key in self._modules

    def module(self, key: int) -> Module:
        """Return the module of that key."""
        return self._modules[key]

    def call(self, key: int) -> ModuleCall:
        """Return the call of that key."""
        return self._calls[key]

    def has_call(self, key: int) -> bool:
        """Whether there is a call of that key."""
        return key in self._calls

    @property
    def root(self) -> Module | None:
        """Module 0, or None for a graph without modules."""
        return self._modules.get(0)

    def calls(self, module: int | None = None) -> list[ModuleCall]:
        """Return all calls, or those of one module, in the order they were made."""
        if module is None:
            return list(self._calls.values())
        if self._calls_of is None:
            self._calls_of = self.calls_by_module()
        return list(self._calls_of.get(module, ()))

    def below(self, key: int) -> set[int]:
        """Return the keys of all modules registered in a module, directly or deeper."""
        found: set[int] = set()
        stack = [key]
        while stack:
            for child in self._modules[stack.pop()].children.values():
                if child not in found:
                    found.add(child)
                    stack.append(child)
        return found

    def calls_by_module(self) -> dict[int, list[ModuleCall]]:
        """Return module key -> its calls, in the order they were made."""
        out: dict[int, list[ModuleCall]] = {k: [] for k in self._modules}
        for call in self._calls.values():
            out[call.module].append(call)
        return out

    def paths(self, key: int) -> tuple[str, ...]:
        """Return every path of a module, the canonical one first: that under which it was first called."""
        if self._path_cache is None:
            self._path_cache = self._compute_paths()
        return self._path_cache.get(key, ())

    def path(self, key: int) -> str:
        """Return the canonical path of a module; empty for the root and for an unregistered module."""
        return next(iter(self.paths(key)), "")

    def registrations(self) -> Iterator[tuple[str, int, int | None]]:
        """Yield (path, module, parent) of registrations, depth first; a shared module once per path."""
        none: frozenset[int] = frozenset()
        stack: list[tuple[str, int, int | None, frozenset[int]]] = []
        stack += [("", 0, None, none)] if 0 in self._modules else []
        while stack:
            path, key, parent, above = stack.pop()
            yield path, key, parent
            inside = above | {key}
            for name, child in reversed(self._modules[key].children.items()):
                if child not in inside:  # a cycle of registrations has no further paths
                    stack.append((f"{path}.{name}" if path else name, child, key, inside))

    def find(self, path: str) -> Module | None:
        """Return the module registered under `path`, canonical or not."""
        module = self.root
        for name in path.split(".") if path else []:
            if module is None or name not in module.children:
                return None
            module = self._modules[module.children[name]]
        return module

    def call_name(self, key: int) -> str:
        """Return the text form's name of a call, ``path#n``; n counts the module's calls from 1."""
        call = self._calls[key]
        index = [c.key for c in self.calls(call.module)].index(key) + 1
        return f"{self.path(call.module)}#{index}"

    def call_names(self) -> dict[int, str]:
        """Return the name of every call by its key, computed in one pass."""
        seen: dict[int, int] = {}
        names: dict[int, str] = {}
        for call in self._calls.values():
            seen[call.module] = seen.get(call.module, 0) + 1
            names[call.key] = f"{self.path(call.module)}#{seen[call.module]}"
        return names

    def ancestors(self, call: int | None) -> list[int]:
        """Return a call, its parent, and so on up to the outermost."""
        out: list[int] = []
        while call is not None:
            out.append(call)
            call = self._calls[call].parent
        return out

    def parameter_paths(self) -> dict[int, list[str]]:
        """Return, by key of a parameter, every path that holds it, canonical module paths first."""
        called = {c.module for c in self._calls.values()}
        first: dict[int, list[str]] = {}  # held by a module that runs
        second: dict[int, list[str]] = {}  # by one that never does
        aliases: dict[int, list[str]] = {}
        for module in self:
            if module.parameters:
                held = first if module.key in called else second
                for at, path in enumerate(self.paths(module.key)):
                    for name, parameter in module.parameters.items():
                        full = f"{path}.{name}" if path else name
                        (aliases if at else held).setdefault(parameter, []).append(full)
        for others in (second, aliases):
            for parameter, paths in others.items():
                first.setdefault(parameter, []).extend(paths)
        return first

    def copy(self) -> ModuleTree:
        """Return an independent tree with the same keys."""
        new = ModuleTree()
        for key, module in self._modules.items():
            twin = copy(module)
            twin.children, twin.parameters = dict(module.children), dict(module.parameters)
            twin.arguments = dict(module.arguments)
            new._modules[key] = twin
        new._calls = dict(self._calls)
        new._next_module, new._next_call = self._next_module, self._next_call
        return new

    # -- paths ---------------------------------------------------------------------------------

    def _walk_keys(self) -> list[int]:
        """Return module keys in depth-first registration order, each once."""
        if 0 not in self._modules:
            return []
        seen: dict[int, None] = {}
        stack = [0]
        while stack:
            key = stack.pop()
            if key in seen:
                continue
            seen[key] = None
            stack.extend(reversed(self._modules[key].children.values()))
        return list(seen)

    def _compute_paths(self) -> dict[int, tuple[str, ...]]:
        """Return all registration paths, the path of the first call in front."""
        found: dict[int, list[str]] = {}
        stack: list[tuple[int, str, frozenset[int]]] = [(0, "", frozenset())] if 0 in self._modules else []
        while stack:
            key, path, above = stack.pop()
            if key in above:
                continue  # a cycle of registrations: the paths already found are all it has
            found.setdefault(key, []).append(path)
            for name, child in reversed(self._modules[key].children.items()):
                stack.append((child, f"{path}.{name}" if path else name, above | {key}))
        first_call: dict[int, ModuleCall] = {}
        for call in self._calls.values():
            first_call.setdefault(call.module, call)
        canonical: dict[int, str] = {}
        name_in: dict[int, dict[int, str]] = {}
        for call in self._calls.values():  # a parent call is older than the calls made in it
            if call.module in canonical or call.module not in found:
                continue
            path = found[call.module][0]
            if call.parent is not None:
                parent = self._calls[call.parent].module
                if parent not in name_in:  # the first name of each child; one search per child is quadratic
                    children = self._modules[parent].children.items()
                    name_in[parent] = {child: name for name, child in reversed(children)}
                name = name_in[parent].get(call.module)
                if name is not None and parent in canonical:
                    path = f"{canonical[parent]}.{name}" if canonical[parent] else name
                else:  # called by way of a container that is not called itself, or from elsewhere
                    above = canonical.get(parent, "")
                    inside = [p for p in found[call.module] if p.startswith(f"{above}.") or not above]
                    path = (inside or found[call.module])[0]
            canonical[call.module] = path
        holders: dict[int, tuple[int, str]] = {}
        for key in self._walk_keys():
            if key not in canonical:  # never called: under the canonical path of its first parent
                parent, name = holders.get(key, (key, ""))
                path = f"{canonical[parent]}.{name}" if canonical.get(parent) else name
                canonical[key] = path if path in found[key] else found[key][0]
            for name, child in self._modules[key].children.items():
                holders.setdefault(child, (key, name))
        return {
            key: (canonical[key], *(p for p in paths if p != canonical[key])) for key, paths in found.items()
        }
