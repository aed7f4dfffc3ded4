"""Makes layers of modules that are one layer of the framework."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ....ir import Constant, Module, Operator, Parameter, Value
from ..definitions import Definition
from ..emission import emit_layer
from ..emitting import NnLayer, Refused, State, View
from ..expressions import Argument, Call, Part
from .contraction import Body
from .emitted_net import EmittedModule, EmittedNet
from .scope import ConstructScope


def make_layer(net: EmittedNet, module: Module) -> EmittedModule | None:
    """Return a module that does what one layer does on its own parameters; None for any other."""
    body = net.modules.bodies.get(module.key)
    children = net.modules.children(module.key)
    if body is None and not children and module.key != 0:
        return _make_idle(net, module)
    activation = None if body is None or not children else _find_activation(net, module, body)
    if (
        module.key == 0
        or body is None
        or len(body.items) != 1 + (activation is not None)
        or body.items[0][0] != "op"
        or (children and activation is None)
    ):
        return None
    operator = net.graph.operator(body.items[0][1])
    layer = find_layer(net, operator, Definition(module.key, "", net.dialect.base, ""))
    if layer is None or not owns_state(net, module, operator, layer):
        return None
    operands = net.graph.operands(operator.key)
    given = [operands[s] for s in layer.slots]
    if {v for v in given if v and not isinstance(net.graph.node(v.node), Constant)} != set(body.inputs):
        return None
    constructor = _without_tied_laws(net, module, layer, operands)
    made = EmittedModule(module.key, constructor, extra=list(layer.extra), layer=layer)
    if activation is not None:
        assert isinstance(constructor, Call)
        assert net.dialect.activated is not None
        added = Argument(net.dialect.activated[1], activation)
        made.constructor = replace(constructor, arguments=(*constructor.arguments, added))
        made.children = {key: name for name, key in children}
    for state in layer.state:
        value = operands[state.slot]
        assert value is not None
        made.state[value.node] = state
    filled = {name for name, *_ in layer.extra}
    for name, key in net.modules.saved(module.key):
        if key not in made.state:
            if name not in filled:
                return None  # a layer of the framework would not hold it
            made.state[key] = State(-1, name)
            made.extra = [extra for extra in made.extra if extra[0] != name]
    return made


def _make_idle(net: EmittedNet, module: Module) -> EmittedModule | None:
    """Return a layer that never runs and is there for its parameters; None where it is no layer."""
    held = dict(net.modules.saved(module.key))
    if not held:
        return None
    parameters = {name: net.graph.parameter(key) for name, key in held.items()}
    constructor = None if module.namesake else net.dialect.idle_layer(module, parameters)
    if constructor is None:
        return None
    made = EmittedModule(module.key, constructor)
    made.state = {key: State(-1, name) for name, key in held.items()}
    return made


def _without_tied_laws(
    net: EmittedNet, module: Module, layer: NnLayer, operands: Sequence[Value | None]
) -> Part:
    """Return a layer's constructor, which draws no parameter that is then tied to another module's."""
    drawing, declared = net.dialect.drawing, net.modules.declared
    if not drawing or not isinstance(layer.constructor, Call):
        return layer.constructor
    held = {f"{s.name}{drawing}": v.node for s in layer.state if (v := operands[s.slot])}
    tied = {name for name, key in held.items() if declared.get(key, [module.key])[0] != module.key}
    kept = [a for a in layer.constructor.arguments if a.name not in tied]
    return replace(layer.constructor, arguments=tuple(kept))


def _find_activation(net: EmittedNet, module: Module, body: Body) -> Part | None:
    """Return the constructor of the activation that a layer is given; None for a module without one."""
    children = net.modules.children(module.key)
    kinds = [kind for kind, _ in body.items]
    holder, names = (module.class_name, *(name for name, _ in children)), net.dialect.activated
    if holder != names or kinds != ["op", "call"]:
        return None
    inner, made = net.contraction.bodies[body.items[1][1]], Value(body.items[0][1])
    if inner.module != children[0][1] or inner.inputs != [made] or inner.outputs != body.outputs:
        return None
    if len(net.graph.users(made)) != 1:
        return None
    found = make_layer(net, net.tree.module(inner.module))
    plain = found is not None and not found.state and not found.extra and found.layer is not None
    return found.constructor if found is not None and plain else None


def find_layer(net: EmittedNet, operator: Operator, definition: Definition) -> NnLayer | None:
    """Return the layer that an operator is; None where the framework has none for this use."""
    try:
        return emit_layer(View(net.graph, operator, ConstructScope(net, definition)))
    except Refused:
        return None


def owns_state(net: EmittedNet, module: Module, operator: Operator, layer: NnLayer) -> bool:
    """Whether a module holds exactly the parameters that a layer for its operator would hold."""
    held = set(module.parameters.values())
    operands = net.graph.operands(operator.key)
    state = [v.node for s in layer.state if (v := operands[s.slot])]
    others = [v for slot, v in enumerate(operands) if slot not in layer.slots]
    used = {v.node for v in others if v and isinstance(net.graph.node(v.node), Parameter)}
    return set(state) <= held and used <= set(state) and len(set(state)) == len(state)
