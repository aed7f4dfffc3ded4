"""Makes the definitions of modules that become classes: their attributes, children, ties and method."""

from __future__ import annotations

from ....ir import BackendError, Graph, Module
from ....ir.nesting import Nest, is_flat, names_in
from ..borrowed_layers import borrowed_layers, sort_borrowed
from ..definitions import Definition
from ..emitting import State
from ..expressions import IDENTITY, LIST, Access, Argument, Call, Member, Part
from .containers import is_chain
from .emitted_net import EmittedModule, EmittedNet
from .scope import ConstructScope
from .steps import write_steps


def make_instance(net: EmittedNet, module: Module) -> EmittedModule:
    """Return a module with a class of its own, which holds the definition of that class."""
    made = EmittedModule(module.key)
    names = list(net.modules.named_children(module.key))
    ordinal = bool(names) and names == [str(i) for i in range(len(names))]
    body = net.modules.bodies.get(module.key)
    chain = ordinal and module.container == "sequential"
    chain = chain and body is not None and is_chain(net, module, body)
    dialect = net.dialect
    listed = ordinal and (chain or body is None or dialect.calls_lists)
    base = dialect.sequential if chain else dialect.module_list if listed else dialect.base
    definition = made.definition = Definition(
        module.key, module.class_name, base, net.modules.paths[module.key]
    )
    scope = ConstructScope(net, definition)
    taken: set[str] = set()
    for name, parameter in module.parameters.items():
        if module.key in net.modules.declared.get(parameter, ()):
            attribute = dialect.names.attribute(name, taken)
            taken.add(attribute)
            made.state[parameter] = State(-1, attribute)
            node = net.graph.parameter(parameter)
            definition.attributes.append((attribute, dialect.parameter(node, attribute)))
            if not node.is_buffer and dialect.distribution(node) is None:
                definition.unknown.add(attribute)
    _count_batches(net, module, made, definition)
    _adopt_children(net, module, made, definition, taken, listed)
    net.by_module[module.key] = made  # its own paths are needed from here on
    _share_modules(net, module, definition)
    _tie_parameters(net, module, definition)
    if body is not None and not chain:
        definition.has_body = True
        definition.inputs, definition.outputs = list(body.inputs), list(body.outputs)
        definition.tensors = [v for v in body.inputs if not net.host(v)]
        definition.input_names = net.modules.input_names(module.key)
        definition.returns = _returned_nest(net.graph) if module.key == 0 else None
        write_steps(net, body, definition, scope)
    return made


def _count_batches(net: EmittedNet, module: Module, made: EmittedModule, definition: Definition) -> None:
    """Declare the source's counter of batches beside running statistics that the class itself holds."""
    provenance, counter = net.graph.provenance, net.dialect.counter
    if counter is None or provenance is None or module.key not in provenance.modules:
        return
    name, constructor = counter
    path = provenance.modules[module.key]
    own = f"{path}.{name}" if path else name
    held = {attribute for attribute, _ in definition.attributes}
    dropped = (provenance.parameters[key] for key in provenance.dropped)
    is_counted = net.graph.origin.framework == "onnx" or any(own in source.paths for source in dropped)
    if "running_var" in held and name not in held and is_counted:
        definition.attributes.append((name, constructor))
        made.extra.append((name, 0.0, (), "int64"))


def _returned_nest(graph: Graph) -> Nest:
    """Return how the source nests what it returns, by names; None where a pass changed the outputs."""
    nest = graph.origin.results
    same = list(names_in(nest)) == [name for name, _ in graph.outputs]
    return nest if same and not is_flat(nest) else None


def _adopt_children(
    net: EmittedNet,
    module: Module,
    made: EmittedModule,
    definition: Definition,
    taken: set[str],
    listed: bool,
) -> None:
    """Make the children of a module attributes of its class, or members of a list."""
    emitted, aliases = dict(net.modules.registered(module.key)), net.modules.aliases(module.key)
    if listed:
        last = max((int(n) for n in emitted), default=-1)
        parts: list[Part] = []
        for name in list(net.modules.named_children(module.key))[: last + 1]:
            child = emitted.get(name)
            if child is None:
                parts.append(IDENTITY)
                continue
            if name in aliases:
                made.aliases[name] = (len(parts), True)
            else:
                made.children[child] = len(parts)
            parts.append(Member(child))
        definition.attributes.append(("", Call(LIST, tuple(Argument("", p) for p in parts))))
        return
    names = net.dialect.names
    for name, child in sort_borrowed(net.tree, emitted, names).items():
        attribute = names.attribute(f"layer{name}" if name.isdigit() and not names.holds_any else name, taken)
        taken.add(attribute)
        if name not in aliases:
            made.children[child] = attribute
            definition.attributes.append((attribute, Member(child)))
            continue
        first = made.children.get(child)  # which the constructor has by now
        made.aliases[name] = (attribute, first is None)
        definition.attributes.append((attribute, Member(child) if first is None else Access((first,))))


def _share_modules(net: EmittedNet, module: Module, definition: Definition) -> None:
    """Add assignments that make one module of several registrations, which meet in this module's class."""
    for places in net.modules.shared():
        if any(_is_borrowed(net, *place) for place in places):  # from where the net runs it first: that stays
            places.sort(key=lambda place: place[1] in net.modules.aliases(place[0]))
        (first, name), *others = places
        for key, other in others:
            if net.common_ancestor(first, key) == module.key and net.is_constructed(key, other):
                left, right = (
                    _registration(net, module.key, *place) for place in ((key, other), (first, name))
                )
                definition.assignments.append((left, right))


def _is_borrowed(net: EmittedNet, key: int, name: str) -> bool:
    """Whether a plain sequence is given a layer by the class around it."""
    return net.tree.module(key).children[name] in borrowed_layers(net.tree, key, net.dialect.names)


def _registration(net: EmittedNet, start: int, holder: int, name: str) -> Access:
    """Return how a class writes what a module below it has registered by a name of the source."""
    above = () if holder == start else net.module_path(start, holder)
    return Access((*above, net.step(holder, name)))


def _tie_parameters(net: EmittedNet, module: Module, definition: Definition) -> None:
    """Add assignments that tie parameters, for pairs whose paths meet in this module's class."""
    for parameter, first, other in net.modules.tied:
        if net.common_ancestor(first, other) == module.key:
            _require_assignable(net, parameter, first, other)
            left, right = (net.parameter_path(module.key, parameter, at) for at in (other, first))
            definition.assignments.append((left, right))


def _require_assignable(net: EmittedNet, parameter: int, *holders: int) -> None:
    """Refuse to tie single parameters of a recurrent stack, which runs on lists of its own."""
    for layer in (net.by_module[holder].layer for holder in holders):
        if layer is not None and layer.unassignable:
            raise BackendError(
                "E602",
                "expected recurrent stacks with parameters of their own, got one that is shared",
                place=net.graph.parameter(parameter).name,
                hint=layer.unassignable,
            )
