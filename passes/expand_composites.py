"""expand-composites: whole layers are written out in the operators that they are made of."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import ClassVar

from ..ir import COMPOSITES, DOMAIN, Builder, Graph, PassError, expand
from .base import Change, Pass
from .places import Places


@dataclass(frozen=True)
class ExpandComposites(Pass):
    """Expand layers that are one operator in the graph.

    What it does:
        Replaces the operators named in `ops` by their definition: MultiheadAttention by its projections, the
        attention between them and the shapes of the heads.

    Why:
        A backend emits such an operator as the target's own layer, which reads best and is not always
        fastest, or not what is to be looked at.

    Leaves alone:
        Composites that are not named, those within the definitions included.

    Refuses:
        Names that no composite has. The pass is in no pipeline.

    Example:
        >>> from regraft.ir import parse
        >>> graph = parse('''
        ... graph main {
        ...   %x = input "x" : f32[N,4]
        ...   %w = param "weight" : f32[2,4]
        ...   %y = regraft.Linear(%x, %w) : f32[N,2]
        ...   return "y" = %y
        ... }''')
        >>> for change in ExpandComposites(ops=("Linear",)).run(graph):
        ...     print(change)
        EC101 is written out - at `regraft.Linear`
    """

    name: ClassVar[str] = "expand-composites"
    codes: ClassVar[dict[str, str]] = {"EC101": "a layer that was one operator is written out"}
    needs_dataflow: ClassVar[bool] = True

    ops: tuple[str, ...] = ("MultiheadAttention",)

    def __post_init__(self) -> None:
        for name in self.ops:
            if name not in COMPOSITES:
                close = get_close_matches(name, COMPOSITES, n=3)
                known = ", ".join(COMPOSITES)
                hint = f"did you mean {' or '.join(close)}?" if close else f"composites: {known}"
                raise PassError("E501", f"`{self.name}` knows no composite `{name}`", hint=hint)

    def run(self, graph: Graph) -> list[Change]:
        """Expand; see the class."""
        places = Places(graph)
        changes: list[Change] = []
        for part in list(graph.subgraphs()):
            builder = Builder(part)
            for node in part.operators():
                if node.domain == DOMAIN and node.op_type in self.ops:
                    changes.append(Change("EC101", "is written out", place=places.of(part, node.key)))
                    expand(builder, node.key)
        return changes
