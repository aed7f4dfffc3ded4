"""The modules of an emitted net while they are made."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

from ....ir import TensorData, Value
from ..definitions import Definition
from ..dialect import Dialect
from ..emitting import Extra, NnLayer, State
from ..expressions import Access, Part, Step
from .contraction import given_value
from .hosts import find_hosts
from .levels import sort_into_levels
from .module_plan import ModulePlan


@dataclass
class EmittedModule:
    """The form in which a module is emitted: a layer, a container, or an instance of a class of the file.

    Attributes:
        module: its key.
        constructor: how its owner constructs a layer or a container; None for an instance of a class.
        children: child module key -> the step from the owner to it: ``"conv1"``, 0.
        aliases: name in the source of a module that is written elsewhere -> the step to it, and whether an
            assignment makes it that other one.
        state: parameter key -> (attribute after the module, transform, shape in the net or None).
        definition: the class, for an instance of one.
        is_sequence: whether it is a container of the framework.
        extra: vectors that it holds and the source does not.
        constants: (name, values) of constants that the checkpoint holds.
        layer: the framework's layer, for one that is such.
    """

    module: int
    constructor: Part | None = None
    children: dict[int, Step] = field(default_factory=dict)
    aliases: dict[str, tuple[Step, bool]] = field(default_factory=dict)
    state: dict[int, State] = field(default_factory=dict)
    definition: Definition | None = None
    is_sequence: bool = False
    extra: list[Extra] = field(default_factory=list)
    constants: list[tuple[str, TensorData]] = field(default_factory=list)
    layer: NnLayer | None = None


class EmittedNet:
    """The modules of a graph that were made so far, and how other code refers to them.

    Args:
        modules: those that are written.
        dialect: what is written.
        explicit: whether layers state the initial distributions that are the framework's defaults too.

    Attributes:
        by_module: module -> what it became.
        paths: module -> its paths in the emitted net once it is made, the first as the framework finds it.
        levels: modules in levels, callees first; those of one level may become one class.
    """

    def __init__(self, modules: ModulePlan, dialect: Dialect, *, explicit: bool = False) -> None:
        self.modules, self.dialect, self.explicit = modules, dialect, explicit
        self.graph, self.tree, self.contraction = modules.graph, modules.tree, modules.contraction
        self.by_module: dict[int, EmittedModule] = {}
        self.paths: dict[int, list[str]] = {}
        self._hosts = find_hosts(self.graph, dialect)
        self.levels = sort_into_levels(self.tree, modules.position, modules.registered)

    def host(self, value: Value) -> str:
        """Return "int" or "tuple" for a size or sizes, in any module; empty for a tensor."""
        return self._hosts.get(given_value(self.graph, value), "")

    def common_ancestor(self, a: int, b: int) -> int:
        """Return the innermost module with a class of its own that contains both."""
        above_a, above_b = self.modules.above(a), self.modules.above(b)
        for key in above_a:
            if key in above_b and not (key in self.by_module and self.by_module[key].is_sequence):
                return key
        return 0

    def module_path(self, start: int, target: int) -> tuple[Step, ...]:
        """Return the steps from `start` to a module below it: ``("layer1", 0, "conv1")``."""
        chain = self.modules.above(target)
        if start not in chain:
            return self._shared_path(start, target)
        chain = chain[: chain.index(start) + 1]
        steps = reversed(list(pairwise(chain)))
        return tuple(self.by_module[up].children[down] for down, up in steps)

    def _shared_path(self, start: int, target: int) -> tuple[Step, ...]:
        """Return the steps to a module that is registered below `start` once more."""
        rows: list[tuple[int, tuple[Step, ...]]] = [(start, ())]
        for key, steps in rows:  # the shortest way is found first
            if key == target:
                return steps
            rows += [(child, (*steps, self.step(key, name))) for name, child in self.modules.registered(key)]
        raise LookupError(f"module {target} is not below {start}")

    def find_paths(self) -> dict[int, list[str]]:
        """Return module -> its paths, by the names under which it is registered."""
        found: dict[int, list[str]] = {}
        stack = [(0, "")]
        while stack:
            key, path = stack.pop()
            found.setdefault(key, []).append(path)
            for name, child in reversed(self.modules.registered(key)):
                step = self.step(key, name)
                inner = step if isinstance(step, str) else name
                stack.append((child, f"{path}.{inner}" if path else inner))
        return found

    def step(self, key: int, name: str) -> Step:
        """Return the step from a module to one that it registers by a name of the source."""
        made = self.by_module[key]
        if name in made.aliases:
            return made.aliases[name][0]
        return made.children[self.tree.module(key).children[name]]

    def is_constructed(self, key: int, name: str) -> bool:
        """Whether a module constructs what it registers by a name of the source, and is not given it."""
        return self.by_module[key].aliases.get(name, ("", True))[1]

    def parameter_path(self, start: int, parameter: int, holder: int | None = None) -> Access:
        """Return how `start` writes a parameter: ``self.embed.embedding_table``."""
        holder = self.contraction.holder(start, parameter) if holder is None else holder
        assert holder is not None
        path = () if holder == start else self.module_path(start, holder)
        made = self.by_module[holder]
        name = made.state[parameter].name
        return Access((*path, int(name) if made.constructor and name.isdigit() else name))
