"""rename-parameters: every parameter gets one unique name, by default its canonical module path."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Literal

from ..ir import Graph, Parameter
from .base import Change, Pass


@dataclass(frozen=True)
class RenameParameters(Pass):
    """Give every parameter one unique name.

    What it does:
        Names each parameter after its canonical module path (the path under which its module was first
        called); the other paths of a shared parameter are recorded in the change. With
        ``scheme=declared`` a parameter keeps its source's name where that name is unique.

    Why:
        A parameter's name is its key in checkpoints and optimizers. Where two parameters have one name,
        MindSpore refuses ``nn.Adam(net.trainable_params())``, and ``save_checkpoint`` loses tensors.

    Leaves alone:
        Names that are right already, and every parameter's declared name. A parameter that no module holds
        keeps its name, numbered where it is taken.

    Refuses:
        Nothing: unique names exist for every graph.

    Example:
        >>> from regraft.ir import parse
        >>> graph = parse('''
        ... graph main {
        ...   module "" Net
        ...   module "head" Dense {weight=%w}
        ...   module "tail" Dense {weight=%v}
        ...   %w = param "w" : f32[2,2]
        ...   %v = param "w" : f32[2,2]
        ... }''')
        >>> for change in RenameParameters().run(graph):
        ...     print(change)
        RP101 2 parameters are called `w`: `head.weight` f32[2,2], `tail.weight` f32[2,2] - at head.weight
        >>> [parameter.name for parameter in graph.parameters()]
        ['head.weight', 'tail.weight']

    Attributes:
        scheme: "path" names parameters by module path; "declared" keeps unique names of the source.
    """

    name: ClassVar[str] = "rename-parameters"
    codes: ClassVar[dict[str, str]] = {
        "RP101": "several parameters have one name: checkpoints lose tensors, optimizers refuse them",
        "RP102": "a parameter bears the module path of another one",
        "RP103": "a parameter's name is not its module path",
    }

    scheme: Literal["path", "declared"] = "path"

    def run(self, graph: Graph) -> list[Change]:
        """Rename; see the class."""
        parameters = graph.parameters()
        paths = graph.parameter_paths()
        path_of = {p.key: (paths.get(p.key) or [""])[0] for p in parameters}
        if self.scheme == "path":
            wanted = [path_of[p.key] or p.name for p in parameters]
        else:
            clashing = find_repeated(p.declared for p in parameters)
            wanted = [
                p.declared if p.declared not in clashing else path_of[p.key] or p.declared for p in parameters
            ]
        # a name that comes from a path is taken before one that merely stays
        ranks = [not path_of[p.key] for p in parameters]
        names = uniquify(wanted, ranks)

        by_name: dict[str, list[Parameter]] = {}
        for parameter in parameters:
            by_name.setdefault(parameter.name, []).append(parameter)
        owner = {path: key for key, path in path_of.items() if path}
        changes: list[Change] = []
        for parameter, new in zip(parameters, names, strict=True):
            group = by_name[parameter.name]
            if len(group) > 1:
                if group[0] is parameter:
                    changes.append(_conflict(graph, group, paths))
            elif parameter.name != new:
                changes.append(_difference(graph, parameter, new, owner, paths))
        for parameter, new in zip(parameters, names, strict=True):
            parameter.name = new
        return changes


def find_repeated(names: Iterable[str]) -> set[str]:
    """Return the names that occur more than once."""
    seen: set[str] = set()
    return {name for name in names if name in seen or seen.add(name)}


def uniquify(names: list[str], ranks: list[bool]) -> list[str]:
    """Make names unique by numbering repeats; of equal names the first of rank False keeps its own.

    Example:
        >>> uniquify(["w", "w", "w_2", ""], [True, False, False, True])
        ['w_3', 'w', 'w_2', 'parameter']
    """
    taken: set[str] = set()
    counters: dict[str, int] = {}
    out = [""] * len(names)
    order = sorted(range(len(names)), key=lambda i: (ranks[i], i))
    late: list[int] = []
    for i in order:  # names nobody else claimed first are kept as they are
        name = names[i] or "parameter"
        if name in taken:
            late.append(i)
        else:
            taken.add(name)
            out[i] = name
    for i in late:
        name = names[i] or "parameter"
        number = counters.get(name, 2)
        while f"{name}_{number}" in taken:
            number += 1
        counters[name] = number + 1
        out[i] = f"{name}_{number}"
        taken.add(out[i])
    return out


def describe_source(graph: Graph, parameter: Parameter, path: str) -> str:
    """Say where the source made a parameter and registered the modules around it, innermost first."""
    places = [parameter.location]
    names = path.split(".")[:-1]
    for depth in range(len(names), 0, -1):
        module = graph.modules.find(".".join(names[:depth]))
        if module is not None:
            places.append(module.location)
    distinct = list(dict.fromkeys(place for place in places if place))
    return ", in ".join(distinct)


def _describe_parameter(graph: Graph, parameter: Parameter, paths: dict[int, list[str]]) -> str:
    """Say path, aliases, type and place of one parameter."""
    held = paths.get(parameter.key, [])
    text = f"`{held[0]}`" if held else "a parameter of no module"
    if len(held) > 1:
        text += f" (also {', '.join(f'`{p}`' for p in held[1:])})"
    text += f" {parameter.type}"
    where = describe_source(graph, parameter, held[0] if held else "")
    return f"{text} from {where}" if where else text


def conflict_text(graph: Graph, group: list[Parameter], paths: dict[int, list[str]]) -> str:
    """Return the message about parameters that have one name: each with its path, type and place."""
    named = ", ".join(_describe_parameter(graph, parameter, paths) for parameter in group)
    return f"{len(group)} parameters are called `{group[0].name}`: {named}"


def _conflict(graph: Graph, group: list[Parameter], paths: dict[int, list[str]]) -> Change:
    place = (paths.get(group[0].key) or [group[0].name])[0]
    return Change("RP101", conflict_text(graph, group, paths), place=place, severity="error")


def _difference(
    graph: Graph, parameter: Parameter, new: str, owner: dict[str, int], paths: dict[int, list[str]]
) -> Change:
    other = owner.get(parameter.name)
    aliases = paths.get(parameter.key, [])[1:]
    also = f", also held as {', '.join(f'`{a}`' for a in aliases)}" if aliases else ""
    if other is not None and other != parameter.key:
        return Change(
            "RP102",
            f"the parameter at `{new}`{also} is called `{parameter.name}`, which is the path of another",
            place=describe_source(graph, parameter, new) or new,
            severity="warning",
        )
    return Change("RP103", f"`{parameter.name}` is now called `{new}`{also}", place=new)
