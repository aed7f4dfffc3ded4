"""write-out-operators: operators that a framework has no function for are written in others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ....ir import Builder, Graph, Operator, Value, merge_types
from ....passes.base import Change, Pass
from ....passes.places import Places
from ...legalise import CanEmit
from .written_out import TABLE


@dataclass(frozen=True)
class WriteOutOperators(Pass):
    """Write operators of ONNX that a framework has no function for in others.

    What it does:
        Replaces each operator, or form of one, that no emitter takes and that `written_out` has a formula
        for: quantised operators by arithmetic on wider integers, sums over windows by convolutions with
        ones, selections by comparisons and gathers, transforms by those on two parts.

    Why:
        A framework has a function for most of ONNX, but not for every operator, attribute and element type.

    Leaves alone:
        What the framework has a function for, and forms that no formula covers.

    Refuses:
        Nothing.

    Example:
        >>> from regraft.ir import parse
        >>> graph = parse('''
        ... graph main {
        ...   %x = input "x" : f32[N,4]
        ...   %y = Hardmax(%x) {axis=1} : f32[N,4]
        ...   return "y" = %y
        ... }''')
        >>> for change in WriteOutOperators(lambda graph, node: node.op_type != "Hardmax").run(graph):
        ...     print(change)
        MS131 is written in other operators - at `Hardmax`
    """

    name: ClassVar[str] = "write-out-operators"
    codes: ClassVar[dict[str, str]] = {
        "MS131": "an operator that the framework has no function for is written in others"
    }

    can_emit: CanEmit

    def run(self, graph: Graph) -> list[Change]:
        """Replace; see the class."""
        places = Places(graph)
        changes: list[Change] = []
        waiting = [node.key for node in graph.operators()]
        while waiting:
            node = graph.operator(waiting.pop())
            if node.qualified_name not in TABLE or self.can_emit(graph, node):
                continue
            place, before = places.of(graph, node.key), {n.key for n in graph.operators()}
            if _write_out(graph, node):
                changes.append(Change("MS131", "is written in other operators", place))
                waiting += [n.key for n in graph.operators() if n.key not in before]
        if changes:
            graph.remove_dead()
        return changes


def _write_out(graph: Graph, node: Operator) -> bool:
    """Replace an operator by what its formula gives; False where there is none for this form."""
    b = Builder(graph)
    with b.inside(node.call, node.location):
        found = TABLE[node.qualified_name](b, node, graph.operands(node.key))
    if found is None:
        return False
    for index, term in enumerate(found):
        made = graph.node(term.value.node)
        known = node.types[index]
        if isinstance(made, Operator) and known is not None:
            own = made.types[term.value.output]
            made.types[term.value.output] = known if own is None else merge_types(known, own)
        graph.replace_uses(Value(node.key, index), term.value)
    return True
