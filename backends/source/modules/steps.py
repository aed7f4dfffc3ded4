"""Writes the steps of a method: one for each operator and call in a body."""

from __future__ import annotations

from dataclasses import replace

from ....ir import BackendError, Constant, Operator, Parameter, Value
from ..definitions import Branches, Definition, Method, Statement
from ..emission import emit_call
from ..emitting import NnLayer, Refused, State, View
from ..expressions import ANY, KEPT, Access, Argument, Call, Element, Expression, Part, Use
from ..regions import Region, regions
from .contraction import Body, is_argument
from .emitted_net import EmittedNet
from .layers import find_layer, owns_state
from .scope import ConstructScope


def write_steps(net: EmittedNet, body: Body, into: Definition | Method, scope: ConstructScope) -> None:
    """Add the statements of a body, and those that turn returned constants and state into tensors."""
    for item in body.items:
        _write_step(net, item, into, scope)
    for value in dict.fromkeys(into.outputs):
        if isinstance(net.graph.node(value.node), (Constant, Parameter)):
            part = scope.tensor(value, 0)
            into.statements.append(Statement([value], Expression((part,), outputs=2)))


def _write_step(
    net: EmittedNet, item: tuple[str, int], into: Definition | Method, scope: ConstructScope
) -> None:
    kind, key = item
    definition = scope.definition
    if kind == "call" and key in net.contraction.returned:
        return  # a method, which its If or Loop calls
    if kind == "call":
        body = net.contraction.bodies[key]
        path, layer = (
            Access(net.module_path(definition.module, body.module)),
            net.by_module[body.module].layer,
        )
        if layer is not None:
            operands = net.graph.operands(body.items[0][1])
            step = scope.layer_step(path, layer, operands, body.outputs)
            into.statements.append(replace(step, attribute=path.last))
            return
        call = Call(path, tuple(Argument("", scope.part(v, 0)) for v in body.inputs))
        into.statements.append(Statement(list(body.outputs), Expression((call,)), path.last))
        return
    operator = net.graph.operator(key)
    if is_argument(operator):
        return  # its reader is written with what it stands for
    found = regions(net.graph, operator)
    if found:
        into.statements.append(_branch(net, operator, found, scope))
        return
    view = View(net.graph, operator, scope)
    targets = [Value(key, i) for i in range(view.used_outputs())]
    try:
        expression = emit_call(view)
    except Refused:
        path, layer = _promote_to_layer(net, operator, definition, scope)
        into.statements.append(scope.layer_step(path, layer, view.operands, targets))
        return
    if expression.outputs > 1:
        targets, expression = _unpacked(key, len(targets), expression)
    aside = operator.qualified_name == "regraft.Print"
    into.statements.append(Statement(targets, expression, is_aside=aside))


def _unpacked(key: int, used: int, expression: Expression) -> tuple[list[Value], Expression]:
    """Return the targets that unpack a tuple, all members or only the first, and the expression."""
    if used == 1:
        return [Value(key)], Expression((Element(expression, 0),))
    return [Value(key, i) for i in range(expression.outputs)], expression


def _promote_to_layer(
    net: EmittedNet, operator: Operator, definition: Definition, scope: ConstructScope
) -> tuple[Access, NnLayer]:
    """Make an auxiliary layer attribute of an operator that the framework has only as a layer."""
    layer = find_layer(net, operator, definition)
    module = net.tree.module(definition.module)
    if layer is None or not owns_state(net, module, operator, layer):
        raise BackendError(
            "E602",
            f"{net.dialect.framework} has `{operator.op_type}` only as a layer that owns its parameters",
            place=net.graph.describe(operator.key),
        )
    name = operator.op_type.lower()
    path = scope.attribute(name, layer.constructor)
    prefix = path.steps[0]
    operands = net.graph.operands(operator.key)
    for state in layer.state:
        value = operands[state.slot]
        assert value is not None
        held = net.by_module[definition.module].state.get(value.node)
        if held is not None:
            definition.attributes = [(n, p) for n, p in definition.attributes if n != held.name]
        net.by_module[definition.module].state[value.node] = State(
            state.slot, f"{prefix}.{state.name}", state.transform, state.shape
        )
    net.by_module[definition.module].extra += [
        (f"{prefix}.{n}", fill, size, dtype) for n, fill, size, dtype in layer.extra
    ]
    return path, layer


def _branch(net: EmittedNet, operator: Operator, found: list[Region], scope: ConstructScope) -> Statement:
    """Return the step of an `if` or `while`, whose bodies become methods of the class."""
    definition, turns = scope.definition, operator.op_type == "While"
    taken = {n for n, _ in definition.attributes} | {m.name for m in definition.methods}
    suffixes = ("", *map(str, range(2, 1000)))
    suffix = next(s for s in suffixes if not any(r.name + s in taken for r in found))
    bodies: list[tuple[Method, tuple[Part, ...]]] = []
    for region in found:
        given = [v for v in net.contraction.bodies[region.call].inputs if v not in region.state]
        inputs = [*region.state, *given]
        names = [net.modules.input_name(v) for v in inputs]
        method = Method(region.name + suffix, inputs, names, list(region.results))
        method.tensors = [v for v in inputs if not net.host(v)]
        bodies.append((method, tuple(scope.part(v, KEPT if turns else ANY) for v in given)))
    definition.methods += [method for method, _ in bodies]
    for region, (method, _) in zip(found, bodies, strict=True):
        write_steps(net, net.contraction.bodies[region.call], method, scope)
    operands = [v for v in net.graph.operands(operator.key) if v is not None]
    count = len(operator.types)
    state = [scope.tensor(v, 0) for v in operands[2 : 2 + count]] if turns else []  # behind the entry
    initial = tuple(Use(part.value, KEPT) if isinstance(part, Use) else part for part in state)
    test = scope.part(operands[0], ANY)
    parts = (test, *initial, *(part for _, given in bodies for part in given))
    branches = Branches(test, tuple(bodies), initial if turns else None)
    targets = [Value(operator.key, i) for i in range(count)]
    return Statement(targets, Expression(parts, outputs=count), branches=branches)
