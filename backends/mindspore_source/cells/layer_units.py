"""Modules that are one layer of MindSpore's."""

from __future__ import annotations

from ....ir import Constant, Module, Operator, Parameter
from ..emitters import emit_layer
from ..emitting import Layer, Refused, View
from .cell_draft import Draft, Unit
from .cells import Cells
from .construct_scope import DraftScope


def layer_unit(cells: Cells, module: Module) -> Unit | None:
    """The unit of a module that computes what one layer does on its own parameters; None for any other."""
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
    layer = find_layer(cells, operator, Draft(module.key, "", "", ""))
    if layer is None or not owns_state(cells, module, operator, layer):
        return None
    operands = cells.graph.operands(operator.key)
    given = [operands[s] for s in layer.slots]
    if {v for v in given if v and not isinstance(cells.graph.node(v.node), Constant)} != set(body.inputs):
        return None
    unit = Unit(module.key, layer.constructor, extra=list(layer.extra), layer=layer)
    for state in layer.state:
        value = operands[state.slot]
        assert value is not None
        unit.state[value.node] = state
    return unit


def find_layer(cells: Cells, operator: Operator, draft: Draft) -> Layer | None:
    """The layer that an operator is, or None."""
    try:
        return emit_layer(View(cells.graph, operator, DraftScope(cells, draft)))
    except Refused:
        return None


def owns_state(cells: Cells, module: Module, operator: Operator, layer: Layer) -> bool:
    """Whether a module holds all that a layer on this operator's parameters would hold, each once."""
    held = set(module.parameters.values())
    operands = cells.graph.operands(operator.key)
    state = [v.node for s in layer.state if (v := operands[s.slot])]
    others = [v for slot, v in enumerate(operands) if slot not in layer.slots]
    used = {v.node for v in others if v and isinstance(cells.graph.node(v.node), Parameter)}
    return set(state) <= held and used <= set(state) and len(set(state)) == len(state)
