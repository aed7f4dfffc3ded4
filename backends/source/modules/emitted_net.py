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
        levels: modules in levels, callees first; those of one level may become one class.
    """

    def __init__(self, modules: ModulePlan, dialect: Dialect, *, explicit: bool = False) -> None:
        self.modules, self.dialect, self.explicit = modules, dialect, explicit
        self.graph, self.tree, self.contraction = modules.graph, modules.tree, modules.contraction
        self.by_module: dict[int, EmittedModule] = {}
        self._hosts = find_hosts(self.graph, dialect)
        self.levels = sort_into_levels(self.tree, modules.position, modules.children)

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
        chain = chain[: chain.index(start) + 1]
        steps = reversed(list(pairwise(chain)))
        return tuple(self.by_module[up].children[down] for down, up in steps)

    def parameter_path(self, start: int, parameter: int, holder: int | None = None) -> Access:
        """Return how `start` writes a parameter: ``self.embed.embedding_table``."""
        holder = self.contraction.holder(start, parameter) if holder is None else holder
        assert holder is not None
        path = () if holder == start else self.module_path(start, holder)
        name = self.by_module[holder].state[parameter].name
        return Access((*path, int(name) if name.isdigit() else name))
