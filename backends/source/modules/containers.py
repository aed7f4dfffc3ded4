"""Makes containers of the framework: sequences and lists of layers."""

from __future__ import annotations

from ....ir import Module
from ..borrowed_layers import PLAIN_SEQUENCES, borrowed_layers
from ..emitting import State
from ..expressions import (
    IDENTITY,
    LIST,
    Access,
    Argument,
    Call,
    Expression,
    Member,
    Part,
)
from .contraction import Body
from .emitted_net import EmittedModule, EmittedNet


def make_container(net: EmittedNet, module: Module) -> EmittedModule | None:
    """Return a module that only holds its children or chains them; None for any other."""
    if module.container not in ("sequential", "list") or _is_chain_of_its_own(net, module):
        return None
    body = net.modules.bodies.get(module.key)
    names = list(net.modules.named_children(module.key))
    ordinal = names == [str(i) for i in range(len(names))]
    if module.parameters and any(module.key in ms for ms in net.modules.declared.values()):
        return None
    if body is not None and not (module.container == "sequential" and is_chain(net, module, body)):
        return None
    if body is None and not ordinal:
        return None
    emitted = set(net.modules.children(module.key))
    last = max(
        (i for i, c in enumerate(net.modules.named_children(module.key).values()) if c in net.modules.used),
        default=-1,
    )
    aliases = net.modules.aliases(module.key)
    borrowed = borrowed_layers(net.tree, module.key, net.dialect.names)
    made = EmittedModule(module.key, is_sequence=True)
    parts: dict[str, Part] = {}
    for name, child in list(net.modules.named_children(module.key).items())[: last + 1]:
        attribute = name if ordinal else net.dialect.names.attribute(name, parts)
        parts[attribute] = IDENTITY
        if (name, child) in emitted:
            made.children[child] = int(name) if ordinal else attribute
            parts[attribute] = Member(child)
        elif child in borrowed and body is not None:
            parts[attribute] = Access((borrowed[child],))
            if name in aliases:
                made.aliases[name] = (int(name) if ordinal else attribute, False)
        elif name in aliases:
            made.aliases[name] = (int(name) if ordinal else attribute, True)
            parts[attribute] = Member(child)
        elif child in net.modules.used:
            return None
    values = tuple(Argument("", part) for part in parts.values())
    if body is None and (module.container == "list" or not net.modules.is_idle(module.key)):
        made.constructor = Call(net.dialect.module_list, (Argument("", Call(LIST, values)),))
    elif ordinal:
        made.constructor = Call(net.dialect.sequential, values)
    else:
        pairs = Call("OrderedDict", tuple(Argument(name, part) for name, part in parts.items()))
        made.constructor = Call(net.dialect.sequential, (Argument("", Expression((pairs,))),))
    return made


def make_parameter_list(net: EmittedNet, module: Module) -> EmittedModule | None:
    """Return a list of parameters, as their framework has one; None for any other module."""
    base, names = net.dialect.parameter_list, list(module.parameters)
    plain = module.class_name == "ParameterList" and not module.children and module.key != 0
    if base is None or not plain or names != [str(at) for at in range(len(names))]:
        return None
    held = [net.graph.parameter(key) for key in module.parameters.values()]
    if any(p.is_buffer or module.key not in net.modules.declared.get(p.key, ()) for p in held):
        return None
    values = tuple(Argument("", net.dialect.parameter(p, "value")) for p in held)
    made = EmittedModule(module.key, Call(base, (Argument("", Call(LIST, values)),)))
    made.state = {p.key: State(-1, name) for name, p in zip(names, held, strict=True)}
    return made


def _is_chain_of_its_own(net: EmittedNet, module: Module) -> bool:
    """Whether a container is the whole net, or of a class that its author derived and named."""
    named = module.container == "sequential" and module.class_name not in PLAIN_SEQUENCES
    names = list(net.modules.named_children(module.key))
    ordinal = bool(names) and names == [str(i) for i in range(len(names))]
    body = net.modules.bodies.get(module.key)
    return module.key == 0 or (named and ordinal and body is not None and is_chain(net, module, body))


def is_chain(net: EmittedNet, module: Module, body: Body) -> bool:
    """Whether the body is the children in order, each given what the one before returned."""
    if len(body.inputs) != 1 or len(body.outputs) != 1:
        return False
    at, order = body.inputs[0], []
    for kind, key in body.items:
        if kind != "call":
            return False
        inner = net.contraction.bodies[key]
        layer = net.by_module[inner.module].layer if inner.module in net.by_module else None
        if (
            inner.inputs != [at]
            or len(inner.outputs) != 1
            or (layer and (layer.results or layer.pick is not None))
        ):
            return False
        at = inner.outputs[0]
        order.append(inner.module)
    expected = [
        c
        for c in net.modules.named_children(module.key).values()
        if c in net.modules.used and net.tree.calls(c)
    ]
    return at == body.outputs[0] and order == expected
