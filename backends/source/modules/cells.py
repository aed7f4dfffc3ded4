"""The cells of a graph while they are made, and how other code refers to them."""

from __future__ import annotations

from itertools import pairwise

from ..dialect import Dialect
from ..expressions import Access, Step
from .cell_definition import Cell
from .emitted_modules import EmittedModules


class Cells:
    """The cells made so far for the modules of a graph.

    Args:
        modules: those that are written.
        dialect: what is written.
        explicit: whether layers state the initial distributions that are the framework's defaults too.

    Attributes:
        by_module: module -> what it became.
        renamed_modules: path of a module in the source -> its attribute, where that is another name.
    """

    def __init__(self, modules: EmittedModules, dialect: Dialect, *, explicit: bool = False) -> None:
        self.modules, self.dialect, self.explicit = modules, dialect, explicit
        self.graph, self.tree, self.contraction = modules.graph, modules.tree, modules.contraction
        self.by_module: dict[int, Cell] = {}
        self.renamed_modules: dict[str, str] = {}

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
        return Access((*path, self.by_module[holder].state[parameter].name))
