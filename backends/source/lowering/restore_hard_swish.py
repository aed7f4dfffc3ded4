"""restore-hard-swish: a hard swish that is written out becomes one operator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ....ir import Builder, Graph, Operator, Value
from ....passes.pattern import PatternPass


@dataclass(frozen=True)
class RestoreHardSwish(PatternPass):
    """Write ``x * relu6(x + 3) / 6`` as HardSwish.

    What it does:
        Replaces the product of a value and a sixth of its sum with 3, cut at 0 and 6, whether the sixth is
        taken of the sum or of the product, by HardSwish, where all operators are of one call and nothing
        else reads between them.

    Why:
        Mobile networks write their activation out: four operators where a framework has one.

    Leaves alone:
        Other numbers, and parts that lie in different calls of modules.

    Refuses:
        Nothing.

    Example:
        >>> from regraft.ir import parse
        >>> graph = parse('''
        ... graph main {
        ...   %x = input "x" : f32[N,4]
        ...   %0 = const 3.0 : f32[]
        ...   %1 = Add(%x, %0) : f32[N,4]
        ...   %2 = const 0.0 : f32[]
        ...   %3 = const 6.0 : f32[]
        ...   %4 = Clip(%1, %2, %3) : f32[N,4]
        ...   %5 = Div(%4, %3) : f32[N,4]
        ...   %y = Mul(%x, %5) : f32[N,4]
        ...   return "y" = %y
        ... }''')
        >>> for change in RestoreHardSwish().run(graph):
        ...     print(change)
        MS145 is HardSwish, written out - at `Mul`
    """

    name: ClassVar[str] = "restore-hard-swish"
    codes: ClassVar[dict[str, str]] = {"MS145": "a hard swish is written out that is one operator"}
    operators: ClassVar[tuple[str, ...]] = ("Mul", "Div")

    def rewrite(self, graph: Graph, node: Operator) -> str:
        """Restore; see the class."""
        variable = _find_variable(graph, node)
        if variable is None:
            return ""
        b = Builder(graph)
        with b.inside(node.call, node.location):
            new = b.op("HardSwish", variable, types=node.types[:1])
        graph.replace_uses(Value(node.key), new)
        return "is HardSwish, written out"


def _find_variable(graph: Graph, root: Operator) -> Value | None:
    """Return x where an operator gives its hard swish, else None."""
    whole = _sixth_of(graph, root)
    if whole is not None:  # (x * relu6(x + 3)) / 6
        product = _inner(graph, root, whole, "Mul")
        return None if product is None else _paired(graph, product, graph.operands(product.key))
    if root.op_type != "Mul":
        return None
    for at, factor in enumerate(graph.operands(root.key)):  # x * (relu6(x + 3) / 6)
        part = None if factor is None else _inner(graph, root, factor, "Div", "Mul")
        cut = None if part is None else _sixth_of(graph, part)
        other = graph.operands(root.key)[1 - at]
        if part is None or cut is None or other is None:
            continue
        if _variable_of_cut(graph, part, cut) == other:
            return other
    return None


def _paired(graph: Graph, product: Operator, factors: Sequence[Value | None]) -> Value | None:
    """Return the factor of a product whose other factor is ``relu6(x + 3)`` of it."""
    for value, cut in (factors, factors[::-1]):
        if value is not None and cut is not None and _variable_of_cut(graph, product, cut) == value:
            return value
    return None


def _variable_of_cut(graph: Graph, reader: Operator, cut: Value) -> Value | None:
    """Return x of ``relu6(x + 3)``."""
    clip = _inner(graph, reader, cut, "Clip")
    bounds = [] if clip is None else graph.operands(clip.key)
    if clip is None or len(bounds) != 3 or [_number(graph, v) for v in bounds[1:]] != [0, 6]:
        return None
    total = None if bounds[0] is None else _inner(graph, clip, bounds[0], "Add")
    terms = () if total is None else graph.operands(total.key)
    for value, shift in (terms, terms[::-1]) if terms else ():
        if value is not None and _number(graph, shift) == 3:
            return value
    return None


def _sixth_of(graph: Graph, node: Operator) -> Value | None:
    """Return the value of which an operator takes a sixth."""
    first, second = graph.operands(node.key)
    if node.op_type == "Div":
        return first if _number(graph, second) == 6 else None
    for value, factor in ((first, second), (second, first)):
        number = _number(graph, factor)
        if number is not None and abs(number * 6 - 1) < 1e-6:
            return value
    return None


def _inner(graph: Graph, reader: Operator, value: Value, *names: str) -> Operator | None:
    """Return the operator of one of the names that gives a value to a reader alone, in the reader's call."""
    node = graph.producer(value)
    if not isinstance(node, Operator) or node.qualified_name not in names or node.call != reader.call:
        return None
    return None if graph.is_output(value) or len(graph.users(value)) != 1 else node


def _number(graph: Graph, value: Value | None) -> float | None:
    """Return the number of a constant of one element; None for anything else."""
    found = None if value is None else graph.constant_value(value)
    return float(found.reshape(-1)[0]) if found is not None and found.size == 1 else None
