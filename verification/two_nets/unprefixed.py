"""Notes Cells with `auto_prefix=False`, in whose checkpoints parameters have other names than their paths."""

from __future__ import annotations

from ...frontends.class_source import is_library_class
from ...frontends.constructions import part_at
from ...ir import Graph
from .remedies import body_of


def notes_on_prefixes(graph: Graph) -> list[str]:
    """Return a note of every Cell of the user's that leaves its own name out of its parameters' names.

    Args:
        graph: a net's.
    """
    if graph.origin.framework != "mindspore":
        return []
    model, paths = graph.origin.model, graph.parameter_paths()
    found: list[str] = []
    for module in graph.modules:
        path = graph.modules.path(module.key)
        cell = part_at(model, path) if path else model
        if cell is None or getattr(cell, "_auto_prefix", True) or is_library_class(type(cell)):
            continue
        start = f"{path}." if path else ""
        other = [
            (graph.parameter(key).declared, names[0])
            for key, names in paths.items()
            if names[0].startswith(start) and graph.parameter(key).declared != names[0]
        ]
        if not other:
            continue
        (declared, first), place = other[0], body_of(graph, path)
        where = f" - at {place}" if place else ""
        found.append(
            f"`{path or '(root)'}` ({module.class_name}) has auto_prefix=False{where}: a checkpoint calls "
            f"`{first}` `{declared}`; write: auto_prefix=True, or rename them in the checkpoint"
        )
    return found
