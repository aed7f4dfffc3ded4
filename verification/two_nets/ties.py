"""Compares ties: parameters of two layers that are one in one net, and several in the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from ...checkpoints.spelling import COUNTER
from ...frontends.assigned_parameters import AssignedParameter, assigned_in_class
from ...frontends.class_source import is_library_class, object_name
from ...frontends.constructions import part_at
from ...frontends.whose_code import is_users_file
from ...ir import Graph, Parameter
from .attributes import AttributeRow, Rewrite
from .pairing import Pairing
from .remedies import expression_of, place_of

TIE = "tie"

_NONE = "none"


def compare_ties(pairing: Pairing, modules: Mapping[str, str]) -> dict[str, AttributeRow]:
    """Return, by its name in the target, a row of every parameter that one of two nets alone ties to another.

    Args:
        pairing: of their layers and parameters.
        modules: path of a module in the source -> in the target.
    """
    source, target = pairing.source, pairing.target
    forward: dict[int, list[int]] = {}
    back: dict[int, list[int]] = {}
    for mine, theirs in pairing.parameters:
        forward.setdefault(mine, []).append(theirs)
        back.setdefault(theirs, []).append(mine)
    paths = target.graph.parameter_paths()
    order = {key: at for at, key in enumerate(paths)}
    mirrored = {other: path for path, other in modules.items()}
    rows: dict[str, AttributeRow] = {}
    for mine, found in forward.items():
        first, *others = sorted(set(found), key=lambda key: order.get(key, len(order)))
        if _counts([source.parameter(mine), *map(target.parameter, found)]):
            for other in others:
                tie = f"`{target.names[other]}` = `{target.names[first]}`"
                made = _made(target.graph, target.names[other], target.names[first])
                statement = "" if made is None else made.text
                rows[target.names[other]] = _row(
                    target.graph, mirrored, target.names[other], (tie, _NONE), statement, made
                )
    for theirs, found in back.items():
        names = paths.get(theirs, [target.names[theirs]])
        if len(set(found)) > 1 and _counts([target.parameter(theirs), *map(source.parameter, found)]):
            for other in names[1:]:
                tie = f"`{other}` = `{names[0]}`"
                statement, made, place = _unmade(target.graph, other, names)
                rows[other] = _row(target.graph, mirrored, other, (_NONE, tie), statement, made, place)
    return rows


def _counts(parameters: list[Parameter]) -> bool:
    """Whether some of these parameters are trained, or are statistics, so that a tie does anything."""
    return any(p.trainable or p.is_buffer for p in parameters) and not any(
        p.role == COUNTER for p in parameters
    )


def _row(
    target: Graph,
    mirrored: Mapping[str, str],
    parameter: str,
    values: tuple[str, str],
    statement: str,
    made: Rewrite | None,
    place: str = "",
) -> AttributeRow:
    layer = parameter.rpartition(".")[0]
    module = target.modules.find(layer)
    if not place and made is not None:
        place = f"{Path(made.file).name}:{made.span[0]}"
    return AttributeRow(
        mirrored.get(layer, layer),
        layer,
        "" if module is None else module.class_name,
        TIE,
        *values,
        statement=f"`{statement}`" if made is not None and made.kind == "last" else statement,
        place=place or place_of(target, layer),
        rewrite=made,
    )


def _made(target: Graph, name: str, first: str) -> Rewrite | None:
    """The statement that ties a parameter to another one, for the end of the constructor around both."""
    for above in _around(name, first):
        part = part_at(target.origin.model, above) if above else target.origin.model
        constructor = None if part is None else vars(type(part)).get("__init__")
        code = getattr(constructor, "__code__", None)
        if code is None or not is_users_file(code.co_filename):
            continue
        start = f"{above}." if above else ""
        sides = [expression_of(n.removeprefix(start), object_name(code)) for n in (name, first)]
        line = code.co_firstlineno
        return Rewrite(code.co_filename, (line, 0, line, 0), text=" = ".join(sides), kind="last")
    return None


def _unmade(target: Graph, name: str, names: list[str]) -> tuple[str, Rewrite | None, str]:
    """Return the advice for untying a parameter: (in words, the edit, the line of the tie)."""
    for above, found in _assignments(target, name, names):
        start = f"{above}." if above else ""
        if f"{start}{found.value}" in names and f"{start}{found.path}" in names:
            text = f"no tie: leave out `{expression_of(found.path)} = {expression_of(found.value)}`"
            place = f"{found.file}:{found.line}"
            span = (found.line, 0, found.line, 0)
            is_layer = target.modules.find(f"{start}{found.path}") is not None
            return text, None if is_layer else Rewrite(found.whole_file, span, kind="delete"), place
    return f"a parameter of its own for `{name}`", None, ""


def _assignments(target: Graph, name: str, names: list[str]) -> Iterator[tuple[str, AssignedParameter]]:
    """The assignments in the classes around a parameter, with the path of the part whose class it is."""
    for above in _around(name, names[0]):
        part = part_at(target.origin.model, above) if above else target.origin.model
        if part is not None and not is_library_class(type(part)):
            for found in assigned_in_class(type(part)):
                yield above, found


def _around(name: str, other: str) -> Iterator[str]:
    """The paths of the modules around two parameters, the innermost first; the root's is empty."""
    mine, theirs = name.split(".")[:-1], other.split(".")[:-1]
    size = next((at for at, (a, b) in enumerate(zip(mine, theirs, strict=False)) if a != b), None)
    size = min(len(mine), len(theirs)) if size is None else size
    for at in range(size, -1, -1):
        yield ".".join(mine[:at])
