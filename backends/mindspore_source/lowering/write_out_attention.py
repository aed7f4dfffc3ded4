"""write-out-attention: multi-head attention of other frameworks is a class of its parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ....ir import Builder, Graph, Operator, expand, walk_operators
from ....ir.composites.multihead import INPUTS
from ....passes.base import Change, Pass
from ....passes.places import Places


@dataclass(frozen=True)
class WriteOutAttention(Pass):
    """Expand attention layers into their projections and the products between them.

    What it does:
        Replaces each MultiheadAttention by its definition, in the module that calls it: a class with the
        source's parameters, `in_proj_weight`, `in_proj_bias` and the child `out_proj`.

    Why:
        MindSpore's nn.MultiheadAttention copies its weights once per position of the sequence when it runs
        on CPU; in graph mode it is many times slower than its parts.

    Leaves alone:
        The layers of a MindSpore source; a layer whose calls differ, which are one class only as MindSpore's;
        all of them with `keep`.

    Refuses:
        Nothing.

    Example:
        >>> from regraft.ir import parse
        >>> graph = parse('''
        ... graph main {
        ...   %x = input "x" : f32[N,5,4]
        ...   %v = param "v" : f32[4,4]
        ...   %w = param "w" : f32[12,4]
        ...   %y = regraft.MultiheadAttention(%x, %x, %x, %v, _, %w) {batch_first=1, num_heads=2} : f32[N,5,4]
        ...   return "y" = %y
        ... }''')
        >>> for change in WriteOutAttention().run(graph):
        ...     print(change)
        MS142 is written as its parts - at `regraft.MultiheadAttention`
    """

    name: ClassVar[str] = "write-out-attention"
    codes: ClassVar[dict[str, str]] = {"MS142": "an attention layer is written as its parts"}

    keep: bool = False

    def run(self, graph: Graph) -> list[Change]:
        """Expand; see the class."""
        if self.keep or graph.origin.framework == "mindspore":
            return []
        tree = graph.modules
        by_module: dict[int | None, list[tuple[Graph, Operator]]] = {}
        for part, node in walk_operators(graph):
            if node.qualified_name == "regraft.MultiheadAttention":
                module = None if node.call is None else tree.call(node.call).module
                by_module.setdefault(module, []).append((part, node))
        places = Places(graph)
        changes: list[Change] = []
        for module, found in by_module.items():
            if module is not None and _differ(found):
                continue
            for part, node in found:
                changes.append(Change("MS142", "is written as its parts", places.of(part, node.key)))
                expand(Builder(part), node.key)
        for part in graph.subgraphs() if changes else ():
            part.remove_dead()
        return changes


def _differ(found: Sequence[tuple[Graph, Operator]]) -> bool:
    """Whether the calls of one layer have different definitions, which no one class has."""
    return len({_form(part, node) for part, node in found}) > 1


def _form(part: Graph, node: Operator) -> tuple[object, ...]:
    """Return the facts that define an attention layer, besides the values of its operands."""
    operands = dict(zip(INPUTS, part.operands(node.key), strict=False))
    query, key, value = (operands[name] for name in INPUTS[:3])
    types = [None if v is None else part.known_type(v) for v in operands.values()]
    return (
        query == key,
        key == value,
        len(node.types),
        *(None if t is None else (t.dtype, t.rank) for t in types),
    )
