"""From modules to units of source: a layer of MindSpore's, a container, or an instance of a class of ours."""

from __future__ import annotations

from ..classes.factories import Factories
from .cell_draft import Unit
from .cells import Cells
from .class_units import class_unit
from .container_units import container_unit
from .contraction import Contraction
from .emitted_modules import EmittedModules
from .layer_units import layer_unit


class CellBuilder:
    """Makes the units of a graph, each after those of the modules that it contains and calls.

    Attributes:
        cells: what the modules became so far.
        factories: functions of the file that many layers are constructed by.
    """

    def __init__(self, contraction: Contraction, *, explicit: bool = False) -> None:
        self.cells = Cells(EmittedModules(contraction.graph, contraction), explicit=explicit)
        modules, tree = self.cells.modules, self.cells.tree
        layers = {key: layer_unit(self.cells, tree.module(key)) for key in modules.position}
        self.factories = Factories(
            (modules.place_of(key), unit.constructor) for key, unit in layers.items() if unit
        )

    def build(self, key: int) -> Unit:
        """Make the unit of a module whose children have theirs."""
        cells = self.cells
        module = cells.tree.module(key)
        unit = layer_unit(cells, module) or container_unit(cells, module) or class_unit(cells, module)
        if unit.constructor is not None:
            unit.constructor = self.factories.applied(unit.constructor)
        cells.units[key] = unit
        return unit
