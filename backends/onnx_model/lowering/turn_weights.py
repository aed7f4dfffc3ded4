"""turn-weights: a matrix that every use transposes is stored transposed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ....ir import Graph, Operator, Value
from ....passes.base import Change, Pass


@dataclass(frozen=True)
class TurnWeights(Pass):
    """Store a matrix (in, out) that is (out, in) in the source, where all its uses transpose it.

    What it does:
        Turns the values of the parameter and takes its Transposes away. No copy of the values is made.

    Why:
        MatMul has no attribute for it, so each Linear would carry a Transpose of its own.

    Leaves alone:
        A weight that something else reads too, such as a tied embedding: it is stored once, as it is; and one
        that stays in the file that holds it (`besides`).

    Refuses:
        Nothing.

    Example:
        >>> from regraft.ir import parse
        >>> graph = parse('''
        ... graph main {
        ...   %x = input "x" : f32[N,4]
        ...   %0 = param "weight" : f32[2,4]
        ...   %1 = Transpose(%0) {perm=[1, 0]} : f32[4,2]
        ...   %y = MatMul(%x, %1) : f32[N,2]
        ...   return "y" = %y
        ... }''')
        >>> for change in TurnWeights().run(graph):
        ...     print(change)
        OX103 is stored as every use reads it, transposed - at weight
    """

    name: ClassVar[str] = "turn-weights"
    besides: frozenset[str] = frozenset()
    codes: ClassVar[dict[str, str]] = {"OX103": "a matrix that every use transposes is stored transposed"}

    def run(self, graph: Graph) -> list[Change]:
        """Turn; see the class."""
        returned = {value.node for _, value in graph.outputs}
        changes: list[Change] = []
        for parameter in list(graph.parameters()):
            users = [graph.node(key) for key in graph.flow.succ[parameter.key]]
            kept = returned & {parameter.key, *(user.key for user in users)}
            if not users or kept or parameter.name in self.besides or not all(map(_is_transpose, users)):
                continue
            parameter.data = parameter.data.transposed()
            for user in users:
                graph.replace_uses(Value(user.key), Value(parameter.key))
                graph.remove(user.key)
            text = "is stored as every use reads it, transposed"
            changes.append(Change("OX103", text, parameter.name))
        return changes


def _is_transpose(node: object) -> bool:
    return isinstance(node, Operator) and node.qualified_name == "Transpose" and node.ints("perm") == [1, 0]
