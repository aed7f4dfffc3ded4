"""restore-swish: a swish that is written out becomes one layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ....ir import Builder, Graph, Operator, Value
from ....passes.pattern import PatternPass


@dataclass(frozen=True)
class RestoreSwish(PatternPass):
    """Write ``x * sigmoid(x)`` as Swish.

    What it does:
        Replaces the product of a value and its own sigmoid by Swish, where both are of one call and nothing
        else reads the sigmoid.

    Why:
        An ONNX file has no other way to say SiLU before opset 24: two operators where a framework has one.

    Leaves alone:
        A sigmoid that lies in another call of a module, as a layer of the source, or that is read elsewhere.

    Refuses:
        Nothing.

    Example:
        >>> from regraft.ir import parse
        >>> graph = parse('''
        ... graph main {
        ...   %x = input "x" : f32[N,4]
        ...   %0 = Sigmoid(%x) : f32[N,4]
        ...   %y = Mul(%0, %x) : f32[N,4]
        ...   return "y" = %y
        ... }''')
        >>> for change in RestoreSwish().run(graph):
        ...     print(change)
        MS147 is Swish, written out - at `Mul`
    """

    name: ClassVar[str] = "restore-swish"
    codes: ClassVar[dict[str, str]] = {"MS147": "a swish is written out that is one operator"}
    operators: ClassVar[tuple[str, ...]] = ("Mul",)

    def rewrite(self, graph: Graph, node: Operator) -> str:
        """Restore; see the class."""
        factors = graph.operands(node.key)
        for value, gate in (factors, factors[::-1]):
            if value is None or gate is None or not _is_gate(graph, node, gate, value):
                continue
            b = Builder(graph)
            with b.inside(node.call, node.location):
                new = b.op("regraft.Swish", value, types=node.types[:1])
            graph.replace_uses(Value(node.key), new)
            return "is Swish, written out"
        return ""


def _is_gate(graph: Graph, reader: Operator, gate: Value, value: Value) -> bool:
    """Whether `gate` is the sigmoid of `value`, in the reader's call and for it alone."""
    node = graph.producer(gate)
    if not isinstance(node, Operator) or node.qualified_name != "Sigmoid" or node.call != reader.call:
        return False
    alone = not graph.is_output(gate) and len(graph.users(gate)) == 1
    return alone and graph.operands(node.key) == [value]
