"""Makes cells of modules that are one layer of MindSpore's."""

from __future__ import annotations

from ....ir import Constant, Module, Operator, Parameter
from ..emitters import emit_layer
from ..emitting import NnLayer, Refused, View
from .cell_definition import Cell, Definition
from .cells import Cells
from .construct_scope import ConstructScope


def make_layer(cells: Cells, module: Module) -> Cell | None:
    """Return the cell of a module that does what one layer does on its own parameters; None for others."""
    body = cells.modules.bodies.get(module.key)
    if (
        module.key == 0
        or body is None
        or len(body.items) != 1
        or body.items[0][0] != "op"
        or cells.modules.children(module.key)
    ):
        return None
    operator = cells.graph.operator(body.items[0][1])
    layer = find_layer(cells, operator, Definition(module.key, "", "", ""))
    if layer is None or not owns_state(cells, module, operator, layer):
        return None
    operands = cells.graph.operands(operator.key)
    given = [operands[s] for s in layer.slots]
    if {v for v in given if v and not isinstance(cells.graph.node(v.node), Constant)} != set(body.inputs):
        return None
    cell = Cell(module.key, layer.constructor, extra=list(layer.extra), layer=layer)
    for state in layer.state:
        value = operands[state.slot]
        assert value is not None
        cell.state[value.node] = state
    return cell


def find_layer(cells: Cells, operator: Operator, definition: Definition) -> NnLayer | None:
    """Return the layer that an operator is; None where MindSpore has none for this use."""
    try:
        return emit_layer(View(cells.graph, operator, ConstructScope(cells, definition)))
    except Refused:
        return None


def owns_state(cells: Cells, module: Module, operator: Operator, layer: NnLayer) -> bool:
    """Whether a module holds exactly the parameters that a layer for its operator would hold."""
    held = set(module.parameters.values())
    operands = cells.graph.operands(operator.key)
    state = [v.node for s in layer.state if (v := operands[s.slot])]
    others = [v for slot, v in enumerate(operands) if slot not in layer.slots]
    used = {v.node for v in others if v and isinstance(cells.graph.node(v.node), Parameter)}
    return set(state) <= held and used <= set(state) and len(set(state)) == len(state)
