"""Sizes as Python's numbers: which values of a graph are written as such, and which operators take them."""

from __future__ import annotations

from collections.abc import Collection

from ...ir import Graph, Operator, Value

ON_SIZES = {"Shape", "Size", "Gather", "Squeeze", "Unsqueeze", "Slice", "Concat", "Cast", "Identity"} | {
    *("Add", "Sub", "Mul", "Div", "Mod", "Max", "Min")
}
"""Operators whose emitters write Python arithmetic if all operands are sizes."""

SIZE_SLOTS: dict[str, Collection[int]] = {
    **dict.fromkeys(ON_SIZES, range(1 << 16)),
    **dict.fromkeys(("Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual"), (0, 1)),
    **dict.fromkeys(("Reshape", "Tile", "TopK", "CumSum"), (1,)),
    **dict.fromkeys(("ConstantOfShape", "Neg", "SizeTensor"), (0,)),
    **dict.fromkeys(("Expand", "Range"), (0, 1, 2)),
    "Print": range(1, 1 << 16),
}
"""Operator -> its operands that may be sizes, numbers and tuples of Python."""

_DEPTH = 8
"""Most operators behind a value that are looked at."""


def host_of(graph: Graph, value: Value) -> str:
    """Return "int" or "tuple" for what will be a size or sizes, empty for a tensor."""
    type_ = graph.type_of(value)
    if type_ is None or type_.rank not in (0, 1) or not _is_size(graph, value, _DEPTH):
        return ""
    return "tuple" if type_.rank else "int"


def is_size(graph: Graph, value: Value) -> bool:
    """Whether a value is written as Python's numbers: a shape, or what is computed from shapes alone."""
    return bool(host_of(graph, value))


def _is_size(graph: Graph, value: Value, depth: int) -> bool:
    node = graph.node(value.node)
    if not isinstance(node, Operator) or node.op_type not in ON_SIZES or not depth:
        return False
    if node.op_type in ("Shape", "Size"):
        return True
    given = [v for v in graph.operands(node.key) if v and graph.constant_value(v) is None]
    return bool(given) and all(_is_size(graph, v, depth - 1) for v in given)


def is_computed(graph: Graph, value: Value, depth: int = _DEPTH) -> bool:
    """Whether a size is one that only a run gives, not one of an input."""
    node = graph.producer(value)
    if not isinstance(node, Operator) or not depth:
        return False
    operands = [v for v in graph.operands(node.key) if v is not None]
    if node.op_type not in ("Shape", "Size"):
        return any(is_computed(graph, v, depth - 1) for v in operands)
    shape = None if (known := graph.type_of(operands[0])) is None else known.shape
    return shape is None or None in shape
