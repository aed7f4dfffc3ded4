"""Makes cells of modules that are one layer of the framework's."""

from __future__ import annotations

from dataclasses import replace

from ....ir import Constant, Module, Operator, Parameter, Value
from ..emission import emit_layer
from ..emitting import NnLayer, Refused, View
from ..expressions import Argument, Call, Part
from .cell_definition import Cell, Definition
from .cells import Cells
from .construct_scope import ConstructScope
from .contraction import Body


def make_layer(cells: Cells, module: Module) -> Cell | None:
    """Return the cell of a module that does what one layer does on its own parameters; None for others."""
    body = cells.modules.bodies.get(module.key)
    children = cells.modules.children(module.key)
    activation = None if body is None or not children else _find_activation(cells, module, body)
    if (
        module.key == 0
        or body is None
        or len(body.items) != 1 + (activation is not None)
        or body.items[0][0] != "op"
        or (children and activation is None)
    ):
        return None
    operator = cells.graph.operator(body.items[0][1])
    layer = find_layer(cells, operator, Definition(module.key, "", cells.dialect.base, ""))
    if layer is None or not owns_state(cells, module, operator, layer):
        return None
    operands = cells.graph.operands(operator.key)
    given = [operands[s] for s in layer.slots]
    if {v for v in given if v and not isinstance(cells.graph.node(v.node), Constant)} != set(body.inputs):
        return None
    cell = Cell(module.key, layer.constructor, extra=list(layer.extra), layer=layer)
    if activation is not None:
        assert isinstance(layer.constructor, Call)
        assert cells.dialect.activated is not None
        added = Argument(cells.dialect.activated[1], activation)
        cell.constructor = replace(layer.constructor, arguments=(*layer.constructor.arguments, added))
        cell.children = {key: name for name, key in children}
    for state in layer.state:
        value = operands[state.slot]
        assert value is not None
        cell.state[value.node] = state
    return cell


def _find_activation(cells: Cells, module: Module, body: Body) -> Part | None:
    """Return the constructor of the activation that a layer is given; None for a module without one."""
    children = cells.modules.children(module.key)
    kinds = [kind for kind, _ in body.items]
    holder, names = (module.class_name, *(name for name, _ in children)), cells.dialect.activated
    if holder != names or kinds != ["op", "call"]:
        return None
    inner, made = cells.contraction.bodies[body.items[1][1]], Value(body.items[0][1])
    if inner.module != children[0][1] or inner.inputs != [made] or inner.outputs != body.outputs:
        return None
    if len(cells.graph.users(made)) != 1:
        return None
    found = make_layer(cells, cells.tree.module(inner.module))
    plain = found is not None and not found.state and not found.extra and found.layer is not None
    return found.constructor if found is not None and plain else None


def find_layer(cells: Cells, operator: Operator, definition: Definition) -> NnLayer | None:
    """Return the layer that an operator is; None where the framework has none for this use."""
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
