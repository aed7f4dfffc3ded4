"""Makes cells of modules that become classes: their attributes, children, ties and `construct`."""

from __future__ import annotations

from ....ir import BackendError, Graph, Module
from ....ir.nesting import Nest, is_flat, names_in
from ..borrowed_layers import sort_borrowed
from ..emitting import State
from ..expressions import IDENTITY, LIST, Argument, Call, Part
from .cell_definition import Cell, Definition
from .cells import Cells
from .construct_scope import ConstructScope
from .construct_steps import write_steps
from .container_cells import is_chain


def make_instance(cells: Cells, module: Module) -> Cell:
    """Return the cell of a module with a class of its own, which holds the definition of that class."""
    cell = Cell(module.key)
    names = list(cells.modules.named_children(module.key))
    ordinal = bool(names) and names == [str(i) for i in range(len(names))]
    body = cells.modules.bodies.get(module.key)
    chain = ordinal and module.container == "sequential"
    chain = chain and body is not None and is_chain(cells, module, body)
    listed = ordinal and (chain or body is None)  # a list is not called
    dialect = cells.dialect
    base = dialect.sequential if chain else dialect.module_list if listed else dialect.base
    definition = cell.definition = Definition(
        module.key, module.class_name, base, cells.modules.paths[module.key]
    )
    scope = ConstructScope(cells, definition)
    taken: set[str] = set()
    for name, parameter in module.parameters.items():
        if module.key in cells.modules.declared.get(parameter, ()):
            attribute = dialect.names.attribute(name, taken)
            taken.add(attribute)
            cell.state[parameter] = State(-1, attribute)
            node = cells.graph.parameter(parameter)
            definition.attributes.append((attribute, dialect.parameter(node, attribute)))
            if not node.is_buffer and dialect.distribution(node) is None:
                definition.unknown.add(attribute)
    _adopt_children(cells, module, cell, definition, taken, listed)
    cells.by_module[module.key] = cell  # its own paths are needed from here on
    _tie_parameters(cells, module, definition)
    if body is not None and not chain:
        definition.has_body = True
        definition.inputs, definition.outputs = list(body.inputs), list(body.outputs)
        definition.input_names = cells.modules.input_names(module.key)
        definition.returns = _returned_nest(cells.graph) if module.key == 0 else None
        write_steps(cells, body, definition, scope)
    return cell


def _returned_nest(graph: Graph) -> Nest:
    """Return how the source nests what it returns, by names; None where a pass changed the outputs."""
    nest = graph.origin.results
    same = list(names_in(nest)) == [name for name, _ in graph.outputs]
    return nest if same and not is_flat(nest) else None


def _adopt_children(
    cells: Cells, module: Module, cell: Cell, definition: Definition, taken: set[str], listed: bool
) -> None:
    """Make the children of a module attributes of its class, or members of a list."""
    emitted = dict(cells.modules.children(module.key))
    if listed:
        last = max((int(n) for n in emitted), default=-1)
        parts: list[Part] = []
        for name in list(cells.modules.named_children(module.key))[: last + 1]:
            child = emitted.get(name)
            if child is None:
                parts.append(IDENTITY)
                continue
            found = cells.by_module[child].constructor
            assert found is not None
            cell.children[child] = len(parts)
            parts.append(found)
        definition.attributes.append(("", Call(LIST, tuple(Argument("", p) for p in parts))))
        return
    names = cells.dialect.names
    for name, child in sort_borrowed(cells.tree, emitted, names).items():
        attribute = names.attribute(f"layer{name}" if name.isdigit() else name, taken)
        taken.add(attribute)
        if attribute != name:
            cells.renamed_modules[cells.modules.paths[child]] = attribute
        constructor = cells.by_module[child].constructor
        assert constructor is not None
        cell.children[child] = attribute
        definition.attributes.append((attribute, constructor))


def _tie_parameters(cells: Cells, module: Module, definition: Definition) -> None:
    """Add assignments that tie parameters, for pairs whose paths meet in this module's class."""
    for parameter, holders in cells.modules.declared.items():
        for other in holders[1:]:
            if cells.common_ancestor(holders[0], other) == module.key:
                _require_assignable(cells, parameter, holders[0], other)
                left, right = (cells.parameter_path(module.key, parameter, at) for at in (other, holders[0]))
                definition.assignments.append((left, right))


def _require_assignable(cells: Cells, parameter: int, *holders: int) -> None:
    """Refuse to tie single parameters of a recurrent stack, which runs on lists of its own."""
    for layer in (cells.by_module[holder].layer for holder in holders):
        if layer is not None and layer.unassignable:
            raise BackendError(
                "E602",
                "expected recurrent stacks with parameters of their own, got one that is shared",
                place=cells.graph.parameter(parameter).name,
                hint=layer.unassignable,
            )
