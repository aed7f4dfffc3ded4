"""register-loose-parameters: parameters that no module holds are registered in the root."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ....ir import Graph
from ....passes.base import Change, Pass


@dataclass(frozen=True)
class RegisterLooseParameters(Pass):
    """Let the root hold the parameters that no module does.

    What it does:
        Registers each of them in the root, under its name with underscores for dots.

    Why:
        A parameter of a module is an attribute of one.

    Leaves alone:
        Parameters that a module holds. Needs a root: see enclose-in-root-call.

    Refuses:
        Nothing.

    Example:
        >>> from regraft.ir import parse
        >>> graph = parse('''
        ... graph main {
        ...   module "" Net
        ...   %x = input "x" : f32[N,4]
        ...   %0 = param "table.scale" : f32[4]
        ...   %y = Mul(%x, %0) : f32[N,4] @ "#1"
        ...   return "y" = %y
        ... }''')
        >>> for change in RegisterLooseParameters().run(graph):
        ...     print(change)
        MS113 is held by the root as `table_scale` - at table.scale
    """

    name: ClassVar[str] = "register-loose-parameters"
    codes: ClassVar[dict[str, str]] = {"MS113": "a parameter that no module holds is the root's"}

    def run(self, graph: Graph) -> list[Change]:
        """Register; see the class."""
        held = graph.parameter_paths()
        changes: list[Change] = []
        for parameter in graph.parameters():
            if parameter.key in held:
                continue
            root = graph.modules.module(0)
            name = parameter.name.replace(".", "_")
            while name in root.parameters or name in root.children:
                name += "_"
            root.parameters[name] = parameter.key
            changes.append(Change("MS113", f"is held by the root as `{name}`", parameter.name))
        return changes
