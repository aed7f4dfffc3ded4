"""adopt-projections: modules that are nn.MultiheadAttention hold the parameters of their `out_proj`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from ....ir import Graph, Operator
from ....ir.composites.multihead import INPUTS, PARAMETERS
from ....passes.base import Change, Pass


@dataclass(frozen=True)
class AdoptProjections(Pass):
    """Let attention modules hold the parameters of their output projection themselves.

    What it does:
        Moves the parameters of the child `out_proj`, which is never called, into a module that computes
        nothing but a multi-head attention that the target's layer computes alike for every input.

    Why:
        The layer holds the projection as a module that it never calls. A module whose every parameter is one
        layer's is written as that layer.

    Leaves alone:
        Modules that compute more, and those that the target's layer computes otherwise for some inputs.

    Refuses:
        Nothing.

    Example:
        >>> from regraft.ir import parse
        >>> graph = parse('''
        ... graph main {
        ...   %x = input "x" : f32[N,4]
        ...   return "y" = %x
        ... }''')
        >>> AdoptProjections().run(graph)
        []
    """

    name: ClassVar[str] = "adopt-projections"
    codes: ClassVar[dict[str, str]] = {"MS112": "an attention module holds the parameters of its projection"}

    fits: Callable[[Graph, Operator], bool] = lambda _graph, _operator: True
    """Whether the target's layer computes an attention alike."""

    def run(self, graph: Graph) -> list[Change]:
        """Adopt; see the class."""
        tree = graph.modules
        by_module: dict[int, list[Operator]] = {}
        inside: dict[int, int] = {}
        found = [o for o in graph.operators() if o.qualified_name == "regraft.MultiheadAttention"]
        if not found:
            return []
        for operator in graph.operators():
            for call in tree.ancestors(operator.call):
                module = tree.call(call).module
                inside[module] = inside.get(module, 0) + 1
        for operator in found:
            if operator.call is not None:
                by_module.setdefault(tree.call(operator.call).module, []).append(operator)
        return [
            Change("MS112", "holds the parameters of its projection", tree.path(key))
            for key, operators in by_module.items()
            if key
            and inside[key] == len(operators)
            and all(self.fits(graph, operator) for operator in operators)
            and _adopt(graph, key, operators[0])
        ]


def _adopt(graph: Graph, key: int, operator: Operator) -> bool:
    """Move the projection's parameters to the module; False if they are not that module's alone."""
    tree, module = graph.modules, graph.modules.module(key)
    operands = dict(zip(INPUTS, graph.operands(operator.key), strict=False))
    projection = module.children.get("out_proj")
    if projection is None or tree.calls(projection) or len(tree.paths(projection)) > 1:
        return False
    own = set(module.parameters.values())
    theirs = {p: n for n, p in tree.module(projection).parameters.items()}
    for name, target in PARAMETERS.items():
        value = operands.get(name)
        if value is not None and value.node not in (theirs if "." in target else own):
            return False
    for parameter, name in theirs.items():
        module.parameters[f"out_proj.{name}"] = parameter
    tree.unregister(key, "out_proj")
    return True
