"""Makes cells of modules that are containers of the framework's: sequences and lists of layers."""

from __future__ import annotations

from ....ir import Module
from ..borrowed_layers import PLAIN_SEQUENCES, borrowed_layers
from ..expressions import (
    IDENTITY,
    LIST,
    Access,
    Argument,
    Call,
    Expression,
    Part,
)
from .cell_definition import Cell
from .cells import Cells
from .contraction import Body


def make_container(cells: Cells, module: Module) -> Cell | None:
    """Return the cell of a module that only holds its children or chains them; None for any other."""
    if module.container not in ("sequential", "list") or _is_chain_of_its_own(cells, module):
        return None
    body = cells.modules.bodies.get(module.key)
    names = list(cells.modules.named_children(module.key))
    ordinal = names == [str(i) for i in range(len(names))]
    if module.parameters and any(module.key in ms for ms in cells.modules.declared.values()):
        return None
    if body is not None and not (module.container == "sequential" and is_chain(cells, module, body)):
        return None
    if body is None and not ordinal:
        return None
    emitted = set(cells.modules.children(module.key))
    last = max(
        (
            i
            for i, c in enumerate(cells.modules.named_children(module.key).values())
            if c in cells.contraction.used
        ),
        default=-1,
    )
    borrowed = borrowed_layers(cells.tree, module.key, cells.dialect.names)
    cell, renamed = Cell(module.key, is_sequence=True), dict[str, str]()
    parts: dict[str, Part] = {}
    for name, child in list(cells.modules.named_children(module.key).items())[: last + 1]:
        known = cells.by_module.get(child)
        attribute = name if ordinal else cells.dialect.names.attribute(name, parts)
        parts[attribute] = IDENTITY
        if (name, child) in emitted:
            assert known is not None
            assert known.constructor is not None
            cell.children[child] = int(name) if ordinal else attribute
            parts[attribute] = known.constructor
        elif child in borrowed and body is not None:
            parts[attribute] = Access((borrowed[child],))
        elif child in cells.contraction.used:
            return None
        if attribute != name:
            renamed[cells.modules.paths[child]] = attribute
    cell.length = len(parts)
    values = tuple(Argument("", part) for part in parts.values())
    if body is None:
        cell.constructor = Call(cells.dialect.module_list, (Argument("", Call(LIST, values)),))
    elif ordinal:
        cell.constructor = Call(cells.dialect.sequential, values)
    else:
        pairs = Call("OrderedDict", tuple(Argument(name, part) for name, part in parts.items()))
        cell.constructor = Call(cells.dialect.sequential, (Argument("", Expression((pairs,))),))
    cells.renamed_modules.update(renamed)
    return cell


def _is_chain_of_its_own(cells: Cells, module: Module) -> bool:
    """Whether a container is the whole net, or of a class that its author derived and named."""
    named = module.container == "sequential" and module.class_name not in PLAIN_SEQUENCES
    names = list(cells.modules.named_children(module.key))
    ordinal = bool(names) and names == [str(i) for i in range(len(names))]
    body = cells.modules.bodies.get(module.key)
    return module.key == 0 or (named and ordinal and body is not None and is_chain(cells, module, body))


def is_chain(cells: Cells, module: Module, body: Body) -> bool:
    """Whether the body is the children in order, each given what the one before returned."""
    if len(body.inputs) != 1 or len(body.outputs) != 1:
        return False
    at, order = body.inputs[0], []
    for kind, key in body.items:
        if kind != "call":
            return False
        inner = cells.contraction.bodies[key]
        layer = cells.by_module[inner.module].layer if inner.module in cells.by_module else None
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
        for c in cells.modules.named_children(module.key).values()
        if c in cells.contraction.used and cells.tree.calls(c)
    ]
    return at == body.outputs[0] and order == expected
