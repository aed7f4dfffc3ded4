"""infer-types: values without a type, or with unknown dimensions, get what the operators' rules give."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..ir import Graph, infer_types, merge_types
from .base import Change, Pass
from .places import Places


@dataclass(frozen=True)
class InferTypes(Pass):
    """Fill in types that are not known.

    What it does:
        Runs ONNX's rules, and those of the composites, in dataflow order and refines types by the results.

    Why:
        Passes that need a size, and backends that declare one, are exact only where it is known.

    Leaves alone:
        Every dimension that is a number or has a name: an anonymous dimension never overwrites one. Results
        of If and Loop, whose types their builder states.

    Refuses:
        Operands that contradict the rule of their operator (an invalid graph).

    Example:
        >>> from regraft.ir import parse
        >>> graph = parse('''
        ... graph main {
        ...   %x = input "x" : f32[N,4]
        ...   %y = Relu(%x) : ?
        ...   return "y" = %y
        ... }''')
        >>> for change in InferTypes().run(graph):
        ...     print(change)
        IT101 unknown type is now f32[N,4] - at `Relu`
    """

    name: ClassVar[str] = "infer-types"
    codes: ClassVar[dict[str, str]] = {"IT101": "a type that was not known follows from its operator's rule"}
    rewordings: ClassVar[frozenset[str]] = frozenset({"IT101"})
    needs_dataflow: ClassVar[bool] = True

    def run(self, graph: Graph) -> list[Change]:
        """Infer; see the class."""
        places = Places(graph)
        changes: list[Change] = []
        for part in list(graph.subgraphs()):
            for node in part.operators():
                found = infer_types(part, node, part.operands(node.key), len(node.types))
                for index, (known, new) in enumerate(zip(node.types, found, strict=True)):
                    merged = new if known is None else merge_types(known, new)
                    if merged != known:
                        was = "unknown type" if known is None else str(known)
                        node.types[index] = merged
                        changes.append(
                            Change("IT101", f"{was} is now {merged}", place=places.of(part, node.key))
                        )
        return changes
