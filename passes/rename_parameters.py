"""rename-parameters: every parameter gets one unique name, by default its canonical module path."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Literal

from ..ir import Graph, Parameter
from .base import Change, Pass
from .naming.conflicts import report_conflicts, report_differences


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
        changes = report_conflicts(
            graph, [group for group in by_name.values() if len(group) > 1], paths, "RP101"
        )
        changes += report_differences(
            graph,
            [
                (parameter, new)
                for parameter, new in zip(parameters, names, strict=True)
                if len(by_name[parameter.name]) == 1 and parameter.name != new
            ],
            {path: key for key, path in path_of.items() if path},
            paths,
        )
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
