"""From modules to cells: a layer of the framework, a container, or an instance of a class of the file."""

from __future__ import annotations

from ..classes.factories import Factories
from ..dialect import Dialect
from .cell_definition import Cell
from .cells import Cells
from .class_cells import make_instance
from .container_cells import make_container
from .contraction import Contraction
from .emitted_modules import EmittedModules
from .layer_cells import make_layer


class CellBuilder:
    """Makes the cells of a graph, each after those of the modules that it contains and calls.

    Attributes:
        cells: what the modules became so far.
        factories: functions of the file that many layers are constructed by.
    """

    def __init__(self, contraction: Contraction, dialect: Dialect, *, explicit: bool = False) -> None:
        self.cells = Cells(EmittedModules(contraction.graph, contraction), dialect, explicit=explicit)
        modules, tree = self.cells.modules, self.cells.tree
        self._layers = {key: make_layer(self.cells, tree.module(key)) for key in modules.position}
        placed = [(modules.place_of(key), cell.constructor) for key, cell in self._layers.items() if cell]
        self.factories = Factories(placed, dialect)

    def build(self, key: int) -> Cell:
        """Make and return the cell of a module whose children have theirs."""
        cells = self.cells
        module = cells.tree.module(key)
        cell = self._layers[key] or make_container(cells, module) or make_instance(cells, module)
        if cell.constructor is not None:
            cell.constructor = self.factories.apply(cell.constructor)
        cells.by_module[key] = cell
        return cell
