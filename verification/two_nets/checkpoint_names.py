"""Notes under which names a checkpoint has a net's parameters, where these are not their paths."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...frontends.class_source import is_library_class
from ...frontends.constructions import Construction, part_at
from ...frontends.mindspore_cell.prefixes import expected_name, prefix_left_out
from ...ir import Graph
from .pairing import Pairing
from .remedies import body_of

_LISTED = 6
"""Parameters that one note lists."""


@dataclass(frozen=True, slots=True)
class Prefix:
    """A Cell with auto_prefix=False, whose parts' parameters have other names than their paths.

    Attributes:
        path: of the Cell.
        class_name: its class.
        parameter: path of the first parameter with another name.
        declared: that name.
        place: the line that says auto_prefix=False; that of its construct where it stands elsewhere.
        call: the call there; None likewise.
    """

    path: str
    class_name: str
    parameter: str
    declared: str
    place: str
    call: Construction | None = None

    @property
    def write(self) -> str:
        """The text to write."""
        return "auto_prefix=True"


def notes_on_names(graph: Graph, side: str) -> list[str]:
    """Return a note of every Cell that leaves its parts' names out, and of parameters of other names.

    Args:
        graph: a net's.
        side: "source" or "target".
    """
    if graph.origin.framework != "mindspore" or not hasattr(graph.origin.model, "_auto_prefix"):
        return []
    found = [
        f"`{prefix.path or '(root)'}` ({prefix.class_name}) has auto_prefix=False"
        + (f" - at {prefix.place}" if prefix.place else "")
        + f": a checkpoint calls `{prefix.parameter}` `{prefix.declared}`; write: {prefix.write}, or rename "
        "them in the checkpoint"
        for prefix in _prefixes(graph)
    ]
    keys = [
        f"{', '.join(f'`{name}`' for name in names)} -> `{graph.parameter(key).declared}`"
        for key, names in graph.parameter_paths().items()
        if len(names) > 1 or graph.parameter(key).declared != expected_name(graph.origin.model, names[0])
    ]
    if keys:
        listed = ", ".join(keys[:_LISTED]) + (", …" if len(keys) > _LISTED else "")
        found.append(f"keys of parameters in a checkpoint of the {side}, which reads no other keys: {listed}")
    return found


def unlike_prefixes(pairing: Pairing) -> list[Prefix]:
    """Return the target's Cells with auto_prefix=False whose parameters the source calls by their paths.

    Args:
        pairing: of the two nets.
    """
    source, target = pairing.source, pairing.target
    if target.graph.origin.framework != "mindspore":
        return []
    declared = {
        pair.target: (source.parameter(mine).declared, target.parameter(theirs).declared)
        for (mine, theirs), pair in pairing.parameters.items()
    }
    return [
        prefix
        for prefix in _prefixes(target.graph)
        if (names := declared.get(prefix.parameter)) is not None
        and _layer(names[0]) == _layer(prefix.parameter) != _layer(names[1])
    ]


def _layer(name: str) -> str:
    return name.rpartition(".")[0]


def _prefixes(graph: Graph) -> Iterator[Prefix]:
    """Yield the Cells of the user's that leave their own name out of their parameters' names."""
    model, paths = graph.origin.model, graph.parameter_paths()
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
        left_short = [each for each in other if each[0] == expected_name(model, each[1])]
        if not left_short:
            continue
        declared, first = left_short[0]
        found = prefix_left_out(cell)
        if found is None:
            yield Prefix(path, module.class_name, first, declared, body_of(graph, path))
            continue
        source, call = found
        made = Construction(
            source.whole_file,
            call.lineno,
            call.end_lineno or call.lineno,
            call.col_offset,
            call.end_col_offset or 0,
        )
        yield Prefix(path, module.class_name, first, declared, made.place, made)
