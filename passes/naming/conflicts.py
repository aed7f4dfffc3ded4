"""Reports parameters with another's name, or a name that is not their path, by the registration at fault."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from ...ir import Graph, Parameter
from ..base import Change
from .wording import describe_insertions, join_names

Paths = dict[int, list[str]]


def report_conflicts(
    graph: Graph, groups: Sequence[list[Parameter]], paths: Paths, code: Literal["RP101", "DU104"]
) -> list[Change]:
    """Return one error for all names that the same modules share, however many names there are.

    Args:
        graph: the graph that holds the parameters.
        groups: parameters of one name each.
        paths: key of a parameter -> the paths that hold it.
        code: the code of the findings.
    """
    causes: dict[tuple[str, ...], list[list[Parameter]]] = {}
    for group in groups:
        held = [_path(p, paths) for p in group]
        owners, _ = _split(held)
        causes.setdefault(owners if all(owners) else tuple(held), []).append(group)
    changes: list[Change] = []
    for owners, shared in causes.items():
        texts = tuple(conflict_text(graph, group, paths) for group in shared)
        if len(shared) == 1:
            message, place = texts[0], _path(shared[0][0], paths)
        else:
            places = [_location(graph, owner) for owner in owners]
            names = f"{len(shared)} names (`{shared[0][0].name}`, …)"
            message = f"{join_names(owners, most=None)}{describe_insertions(places)} give the same {names}"
            place = next(filter(None, places), owners[0])
        changes.append(
            Change(
                code,
                message,
                place=place,
                severity="error",
                members=texts if len(shared) > 1 else (),
                modules=owners,
                advice=_advise(graph, shared, paths),
            )
        )
    return changes


def _advise(graph: Graph, groups: Sequence[list[Parameter]], paths: Paths) -> str:
    """Return what to type where a file has the parameters, and no line of a program can be edited."""
    if graph.origin.framework != "mxnet":
        return ""
    option = ",".join("tie=" + "+".join(_path(p, paths) for p in group) for group in groups[:3])
    more = " and so on" if len(groups) > 3 else ""
    return (
        f"`--pass tie-weights:{option}`{more} of `regraft rewrite` if they are one parameter, as in Gluon; "
        f"otherwise `regraft rewrite` gives each a name (MXNet itself binds no such symbol)"
    )


def report_differences(
    graph: Graph, renamed: Sequence[tuple[Parameter, str]], owner: dict[str, int], paths: Paths
) -> list[Change]:
    """Return findings for parameters with another's path (RP102) or no path (RP103), one per module.

    Args:
        graph: the graph that holds the parameters.
        renamed: parameters and their new names.
        owner: path -> key of the parameter that it belongs to.
        paths: key of a parameter -> the paths that hold it.
    """
    causes: dict[tuple[bool, str, str], list[tuple[Parameter, str]]] = {}
    for parameter, new in renamed:
        other = owner.get(parameter.name)
        taken = other is not None and other != parameter.key
        (holder, stated), _ = _split([new, parameter.name])
        causes.setdefault((taken, holder, stated), []).append((parameter, new))
    changes: list[Change] = []
    for (taken, holder, stated), found in causes.items():
        texts = tuple(_describe_difference(graph, p, new, paths, taken=taken)[0] for p, new in found)
        if len(found) == 1 or not holder:
            each = [_describe_difference(graph, p, new, paths, taken=taken) for p, new in found]
            changes += [
                Change(
                    "RP102" if taken else "RP103",
                    text,
                    place=place,
                    severity="warning" if taken else "note",
                    modules=(holder,) if holder else (),
                )
                for text, place in each
            ]
            continue
        said = f"under `{stated}`" if stated else f"without `{holder}` in front"
        example = f"`{found[0][0].name}` is now called `{found[0][1]}`"
        changes.append(
            Change(
                "RP102" if taken else "RP103",
                f"{len(found)} parameters of `{holder}` are named {said}"
                + (", which are the paths of others" if taken else "")
                + f": {example}",
                place=_location(graph, holder) or holder,
                severity="warning" if taken else "note",
                members=texts,
                modules=(holder,),
            )
        )
    return changes


def conflict_text(graph: Graph, group: list[Parameter], paths: Paths) -> str:
    """Return the message about parameters that have one name: each with its path, type and place."""
    named = ", ".join(_describe_parameter(graph, parameter, paths) for parameter in group)
    return f"{len(group)} parameters are called `{group[0].name}`: {named}"


def describe_source(graph: Graph, parameter: Parameter, path: str) -> str:
    """Describe where the source made a parameter and registered its modules, innermost first."""
    places = [parameter.location]
    names = path.split(".")[:-1]
    for depth in range(len(names), 0, -1):
        module = graph.modules.find(".".join(names[:depth]))
        if module is not None:
            places.append(module.location)
    distinct = list(dict.fromkeys(place for place in places if place))
    return ", in ".join(distinct)


def _path(parameter: Parameter, paths: Paths) -> str:
    return (paths.get(parameter.key) or [parameter.name])[0]


def _split(names: Sequence[str]) -> tuple[tuple[str, ...], str]:
    """Split dotted names into their own beginnings and their longest common end."""
    parts = [name.split(".") for name in names]
    common = 0
    while all(len(p) > common for p in parts) and len({p[-1 - common] for p in parts}) == 1:
        common += 1
    ends = parts[0][len(parts[0]) - common :]
    return tuple(".".join(p[: len(p) - common]) for p in parts), ".".join(ends)


def _location(graph: Graph, path: str) -> str:
    module = graph.modules.find(path)
    return "" if module is None else module.location


def _describe_parameter(graph: Graph, parameter: Parameter, paths: Paths) -> str:
    """Describe one parameter: path, aliases, type and place."""
    held = paths.get(parameter.key, [])
    text = f"`{held[0]}`" if held else "a parameter of no module"
    if len(held) > 1:
        text += f" (also {', '.join(f'`{p}`' for p in held[1:])})"
    text += f" {parameter.type}"
    where = describe_source(graph, parameter, held[0] if held else "")
    return f"{text} from {where}" if where else text


def _describe_difference(
    graph: Graph, parameter: Parameter, new: str, paths: Paths, *, taken: bool
) -> tuple[str, str]:
    """Return (message, place) for a parameter whose name is not its path."""
    aliases = paths.get(parameter.key, [])[1:]
    also = f", also held as {', '.join(f'`{a}`' for a in aliases)}" if aliases else ""
    if taken:
        return (
            f"the parameter at `{new}`{also} is called `{parameter.name}`, which is the path of another",
            describe_source(graph, parameter, new) or new,
        )
    return f"`{parameter.name}` is now called `{new}`{also}", new
