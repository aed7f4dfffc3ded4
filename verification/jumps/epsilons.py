"""Finds numbers such as an epsilon, which are small beside usual inputs and decide results of small ones."""

from __future__ import annotations

from ...ir import Graph, Operator, Value
from ...ir.analysis.jumps import numbers_of

FACTOR = 1e-4
"""Factor of normal inputs at which such numbers matter."""

_BELOW = 0.02
"""Number below which one is small beside usual inputs."""

_NAMES = """
Abs AveragePool Cast CumSum GlobalAveragePool GlobalMaxPool LeakyRelu MaxPool Neg Pad Pow Relu
ReduceL1 ReduceL2 ReduceMax ReduceMean ReduceMin ReduceSum ReduceSumSquare Sqrt
"""

_SCALING = frozenset(_NAMES.split())
"""Operators whose result gets smaller with their first operand."""

_PRODUCTS = frozenset(["Conv", "Div", "Einsum", "Gemm", "MatMul", "Mul"])
"""Operators whose result gets smaller with either of two operands, and with a third one if that does."""

_SUMS = frozenset(["Add", "Clip", "Concat", "Max", "Min", "Sub", "Sum", "Where"])
"""Operators whose result gets smaller if all operands do."""


def has_epsilon(graph: Graph) -> bool:
    """Whether a small number meets a value that gets as small as the inputs, all float32 or wider.

    A bias or a constant before it keeps values large, however small inputs are.
    """
    types = [node.type.dtype for node in graph.input_nodes()]
    floats = [dtype for dtype in types if "float" in dtype]
    if not floats or not {"float32", "float64"}.issuperset(floats):
        return False
    scaled = {Value(node.key) for node in graph.input_nodes() if "float" in node.type.dtype}
    for key in graph.order():
        node = graph.node(key)
        if not isinstance(node, Operator) or node.domain:
            continue
        operands = [v for v in graph.operands(key) if v is not None]
        small = [v in scaled for v in operands]
        if not any(small):
            continue
        if node.traits.normalisation and small[0] and not node.traits.trains_differently:
            return True
        if node.op_type in ("Add", "Clip", "Max", "Sub") and not all(small):
            numbers = [n for v in operands if v not in scaled for n in numbers_of(graph, v) or ()]
            if any(0 < abs(n) < _BELOW for n in numbers):
                return True
        if _gets_smaller(node, small):
            scaled.update(Value(key, at) for at in range(len(node.types)))
    return False


def _gets_smaller(node: Operator, small: list[bool]) -> bool:
    """Whether the results of an operator get smaller with those operands that do."""
    if node.op_type in _PRODUCTS:
        return any(small[:2]) and all(small[2:])
    if node.op_type in _SUMS:
        return all(small[1:] if node.op_type == "Where" else small)
    return small[0] and (node.traits.moving or node.traits.selecting or node.op_type in _SCALING)
