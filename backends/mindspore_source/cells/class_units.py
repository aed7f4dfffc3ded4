"""Modules that are classes of their own: their attributes, children, ties and `construct`."""

from __future__ import annotations

from ....ir import BackendError, Module
from ..emitters.initializers import law_of, own_parameter
from ..emitting import State
from ..naming import attribute_name
from ..text.expressions import Argument, Call, Part
from .cell_draft import Draft, Unit
from .cells import Cells
from .construct_scope import DraftScope
from .construct_steps import write_steps
from .container_units import is_chain


def class_unit(cells: Cells, module: Module) -> Unit:
    """The unit of a module with a class of its own, and the draft of that class."""
    unit = Unit(module.key)
    names = list(cells.modules.registered(module.key))
    ordinal = bool(names) and names == [str(i) for i in range(len(names))]
    body = cells.modules.bodies.get(module.key)
    chain = ordinal and module.container == "sequential"
    chain = chain and body is not None and is_chain(cells, module, body)
    listed = ordinal and (chain or body is None)  # graph mode does not call a CellList
    base = "nn.SequentialCell" if chain else "nn.CellList" if listed else "nn.Cell"
    draft = unit.draft = Draft(module.key, module.class_name, base, cells.modules.paths[module.key])
    scope = DraftScope(cells, draft)
    taken: set[str] = set()
    for name, parameter in module.parameters.items():
        if module.key in cells.modules.declared.get(parameter, ()):
            attribute = attribute_name(name, taken)
            taken.add(attribute)
            unit.state[parameter] = State(-1, attribute)
            draft.attributes.append((attribute, own_parameter(cells.graph.parameter(parameter), attribute)))
            node = cells.graph.parameter(parameter)
            if not node.is_buffer and law_of(node) is None:
                draft.unknown.add(attribute)
    _adopt_children(cells, module, unit, draft, taken, listed)
    cells.units[module.key] = unit  # its own paths are needed from here on
    _tie_parameters(cells, module, draft)
    if body is not None and not chain:
        draft.has_body = True
        draft.inputs, draft.outputs = list(body.inputs), list(body.outputs)
        draft.input_names = cells.modules.input_names(module.key)
        write_steps(cells, body, draft, scope)
    return unit


def _adopt_children(
    cells: Cells, module: Module, unit: Unit, draft: Draft, taken: set[str], listed: bool
) -> None:
    emitted = dict(cells.modules.children(module.key))
    if listed:
        last = max((int(n) for n in emitted), default=-1)
        parts: list[Part] = []
        for name in list(cells.modules.registered(module.key))[: last + 1]:
            child = emitted.get(name)
            if child is None:
                parts.append(Call("nn.Identity", ()))
                continue
            found = cells.units[child].constructor
            assert found is not None
            unit.children[child] = len(parts)
            parts.append(found)
        draft.attributes.append(("", Call("[]", tuple(Argument("", p) for p in parts))))
        return
    for name, child in emitted.items():
        attribute = attribute_name(f"layer{name}" if name.isdigit() else name, taken)
        taken.add(attribute)
        if attribute != name:
            cells.renamed_modules[cells.modules.paths[child]] = attribute
        constructor = cells.units[child].constructor
        assert constructor is not None
        unit.children[child] = attribute
        draft.attributes.append((attribute, constructor))


def _tie_parameters(cells: Cells, module: Module, draft: Draft) -> None:
    """Assignments that make one parameter of several, for pairs that meet in this module's class."""
    for parameter, holders in cells.modules.declared.items():
        for other in holders[1:]:
            if cells.meeting_of(holders[0], other) == module.key:
                _require_assignable(cells, parameter, holders[0], other)
                left, right = (cells.parameter_path(module.key, parameter, at) for at in (other, holders[0]))
                draft.assignments.append((left, right))


def _require_assignable(cells: Cells, parameter: int, *holders: int) -> None:
    """Refuse to tie single parameters of a recurrent stack, which runs on lists of its own."""
    layers = [cells.units[h].layer for h in holders]
    if any(layer is not None and not layer.assignable for layer in layers):
        raise BackendError(
            "E602",
            "expected recurrent stacks with parameters of their own, got one that is shared",
            place=cells.graph.parameter(parameter).name,
            hint="MindSpore can share a whole nn.LSTM, nn.GRU or nn.RNN, or single parameters of cells",
        )
