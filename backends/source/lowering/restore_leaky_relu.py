"""restore-leaky-relu: a LeakyReLU that computes a maximum of products is one layer again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ....ir import Builder, Graph, Operator, Value
from ....passes.pattern import PatternPass


@dataclass(frozen=True)
class RestoreLeakyRelu(PatternPass):
    """Write nn.LeakyReLU for the product and the maximum that it computes.

    What it does:
        Replaces ``Max(alpha * x, x)``, with a number from 0 to 1, by LeakyRelu in calls of a module of the
        class LeakyReLU.

    Why:
        A framework's own layer may be written so, and comes back as the layer that it was.

    Leaves alone:
        Other modules: where x is 0, the gradient of a maximum is not that of a LeakyRelu.

    Refuses:
        Nothing.

    Example:
        >>> from regraft.ir import parse
        >>> graph = parse('''
        ... graph main {
        ...   module "" Net
        ...   module "act" LeakyReLU
        ...   %x = input "x" : f32[N,4]
        ...   %0 = const 0.3 : f32[]
        ...   %1 = Mul(%0, %x) : f32[N,4] @ "act#1"
        ...   %y = Max(%1, %x) : f32[N,4] @ "act#1"
        ...   return "y" = %y
        ... }''')
        >>> for change in RestoreLeakyRelu().run(graph):
        ...     print(change)
        MS130 is LeakyRelu with alpha=0.3 - at `Max` in `act#1`
    """

    name: ClassVar[str] = "restore-leaky-relu"
    codes: ClassVar[dict[str, str]] = {"MS130": "a product and a maximum are the layer that they were"}
    operators: ClassVar[tuple[str, ...]] = ("Max",)

    def rewrite(self, graph: Graph, node: Operator) -> str:
        """Restore; see the class."""
        tree, found = graph.modules, _leaky(graph, node)
        if found is None or node.call is None:
            return ""
        if tree.module(tree.call(node.call).module).class_name != "LeakyReLU":
            return ""
        variable, alpha = found
        b = Builder(graph)
        with b.inside(node.call, node.location):
            new = b.op("LeakyRelu", variable, types=node.types[:1], alpha=alpha)
        graph.replace_uses(Value(node.key), new)
        return f"is LeakyRelu with alpha={alpha:g}"


def _leaky(graph: Graph, node: Operator) -> tuple[Value, float] | None:
    """Return (x, alpha) of ``Max(alpha * x, x)``; None for anything else."""
    operands = graph.operands(node.key)
    for at, variable in enumerate(operands if len(operands) == 2 else ()):
        scaled = operands[1 - at]
        product = None if scaled is None else graph.node(scaled.node)
        if variable is None or not isinstance(product, Operator) or product.qualified_name != "Mul":
            continue
        factors = graph.operands(product.key)
        others = [f for f in factors if f != variable]
        alpha = graph.constant_value(others[0]) if len(factors) == 2 and len(others) == 1 else None
        if product.call == node.call and alpha is not None and alpha.size == 1:
            slope = float(alpha.reshape(-1)[0])
            if 0 <= slope <= 1:
                return variable, slope
    return None
