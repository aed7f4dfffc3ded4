"""Shapes with N in them, of the results of operators in a program for a batch of any size."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ....ir import TensorType
from ....ir.dims import Dim, Size, broadcast, product
from ..mindir import Node

TUPLES = ("MakeTuple", "make_list", "MakeList")
"""Operators that put their operands in a sequence."""

ITEMS = ("TupleGetItem", "ListGetItem", "list_getitem")
"""Operators that take one value out of a sequence."""

SHAPED = {"Reshape", "Tile", "BroadcastTo", "BroadcastToView", "StridedSlice"}
"""Operators that sizes with the batch in them may be operands of."""

Shape = tuple[Dim, ...]

_ARITHMETIC: Mapping[str, Callable[[Size, Size], Size]] = {
    "ScalarAdd": Size.__add__,
    "ScalarSub": Size.__sub__,
    "ScalarMul": Size.__mul__,
    "ScalarFloorDiv": Size.__floordiv__,
}
_ALIKE = {
    *("Identity", "Load", "Depend", "Cast", "Sqrt", "Rsqrt", "Square", "Exp", "Log", "Neg", "Abs", "Erf"),
    *("ReLU", "ReLU6", "LeakyReLU", "Elu", "Sigmoid", "HSigmoid", "HSwish", "SiLU", "GeLU", "Tanh"),
    *("Softplus", "Mish", "Softmax", "LogSoftmax", "BiasAdd", "LayerNorm", "LogicalNot"),
}
"""Operators whose result has the shape of their first operand."""
_SPREAD = {
    *("Add", "AddExt", "Sub", "SubExt", "Mul", "Muls", "Div", "RealDiv", "Maximum", "Minimum"),
    *("InplaceAddExt", "Adds", "Subs", "Divs", "Equal", "NotEqual", "Greater", "GreaterEqual", "Less"),
    *("LessEqual", "EqScalar", "LogicalAnd", "LogicalOr", "Select", "MaskedFill"),
}
"""Operators whose operands spread over one another."""
_REDUCED = {"SumExt", "MeanExt", "ReduceMean", "ReduceSum", "ReduceMax"}
"""Operators that take axes together: operand, axes, and whether they stay with size 1."""
_SLICE_INPUTS = 9
"""Inputs of StridedSlice: operand, begin, end, strides; masks of begin, end, ellipsis, new, shrunk axes."""


def holds_size(value: Any) -> bool:
    """Whether a constant has the batch in it."""
    return isinstance(value, Size) or (isinstance(value, tuple) and any(map(holds_size, value)))


def size_of(node: Node, types: Mapping[str, Any], values: Mapping[str, Any]) -> Any:
    """Return the size, or the tuple of sizes, that a node computes; None where it computes something else.

    Args:
        node: what is asked.
        types: value name -> its type, complete.
        values: value name -> what a constant, or another such node, holds.
    """
    if node.op == "Shape":
        shape = _known(types.get(node.inputs[0]))
        return None if shape is None else tuple(Size.of(d) if isinstance(d, str) else d for d in shape)
    given: list[Any] = [values.get(name) for name in node.inputs]
    if node.op in ITEMS and isinstance(given[0], tuple) and type(given[1]) is int:
        return given[0][given[1]]
    if node.op in TUPLES and all(name in values for name in node.inputs):
        return tuple(given) if any(map(holds_size, given)) or all(map(_is_size, given)) else None
    if node.op in _ARITHMETIC and all(map(_is_size, given)):
        left, right = given
        found = _ARITHMETIC[node.op](Size.of(left), Size.of(right))
        return found if found.number is None else found.number
    return None


def shape_of(node: Node, operands: Sequence[Any], values: Mapping[str, Any]) -> Shape | None:
    """Return the shape that a node's result, or each of several, has; None where no rule is certain of it.

    Args:
        node: what is asked.
        operands: the types of its operands; None of what is no tensor.
        values: value name -> what a constant holds.
    """
    given: list[Any] = [values.get(name) for name in node.inputs]
    parts = operands[0] if operands and isinstance(operands[0], tuple) else operands
    shapes = [_known(t) for t in parts]
    first = shapes[0] if shapes else None
    if first is None:
        return None
    match node.op:
        case op if op in _ALIKE:
            return first
        case op if op in _SPREAD:
            constants = [_shape_of_constant(value) for value in given]
            return _spread([c if s is None else s for s, c in zip(shapes, constants, strict=True)])
        case "Transpose" if _are_numbers(given[1]) and len(given[1]) == len(first):
            return tuple(first[axis] for axis in given[1])
        case "Concat" if type(given[-1]) is int:
            return _joined(shapes, given[-1])
        case "Unstack" if type(axis := node.attributes.get("axis")) is int:
            axis %= len(first)
            return first[:axis] + first[axis + 1 :]
        case "BatchMatMul" | "MatMulExt" if len(shapes) > 1 and shapes[1] is not None:
            return _multiplied(first, shapes[1], given[2:4])
        case op if op in _REDUCED and len(given) > len(("operand", "axes")):
            return _reduced(first, given[1], given[2])
        case "StridedSlice" if len(given) == _SLICE_INPUTS:
            return _sliced(first, given)
        case op if op in SHAPED and isinstance(given[1], tuple) and all(map(_is_size, given[1])):
            return _shaped(op, first, [None if s == -1 else Size.of(s).dim for s in given[1]])
        case _:
            return None


def in_order(nodes: Sequence[Node], output: str) -> list[Node]:
    """Return the nodes that an output needs as MindSpore lists them: operands first, from left to right.

    What a size was asked of is no operand any more, and may come later than it did.
    """
    by_name = {node.name: node for node in nodes}
    found: dict[str, Node] = {}
    waiting: list[tuple[str, bool]] = [(output, False)]
    while waiting:
        name, is_ready = waiting.pop()
        node = by_name.get(name)
        if node is None or name in found:
            continue
        if is_ready:
            found[name] = node
            continue
        waiting.append((name, True))
        waiting += [(operand, False) for operand in reversed(node.inputs)]
    return list(found.values())


def completed(shape: Sequence[Dim], count: Dim) -> Shape:
    """Return a shape with what a number of elements leaves in place of its None, where that divides it."""
    rest = product(d for d in shape if d is not None)
    size = None if count is None or not rest else Size.of(count).divide(Size.of(rest))
    return tuple((size and size.dim) if d is None else d for d in shape)


def _known(type_: Any) -> Shape | None:
    shape = type_.shape if isinstance(type_, TensorType) else None
    return None if shape is None or None in shape else shape


def _is_size(value: Any) -> bool:
    return isinstance(value, Size) or type(value) is int


def _are_numbers(value: Any) -> bool:
    return isinstance(value, tuple) and all(type(v) is int for v in value)


def _shape_of_constant(value: Any) -> Shape | None:
    if isinstance(value, np.ndarray):
        return value.shape
    return () if isinstance(value, (bool, int, float)) else None


def _spread(shapes: Sequence[Shape | None]) -> Shape | None:
    known = [s for s in shapes if s is not None]
    try:
        found = broadcast(*known)
    except ValueError:  # which MindSpore would have refused
        return None
    return None if None in found or len(known) < len(shapes) else found


def _joined(shapes: Sequence[Shape | None], axis: int) -> Shape | None:
    first, *others = shapes
    if first is None or None in others:
        return None
    axis %= len(first)
    total = sum((Size.of(s[axis] or 0) for s in shapes if s is not None), Size.of(0))
    rest = {s[:axis] + s[axis + 1 :] for s in shapes if s is not None}
    return None if len(rest) > 1 else (*first[:axis], total.dim, *first[axis + 1 :])


def _multiplied(left: Shape, right: Shape, transposed: Sequence[Any]) -> Shape | None:
    if min(len(left), len(right)) < len(("rows", "columns")):
        return None
    swaps = [t is True for t in (*transposed, False, False)]
    rows, columns = left[-1 if swaps[0] else -2], right[-2 if swaps[1] else -1]
    lead = _spread((left[:-2], right[:-2]))
    return None if lead is None else (*lead, rows, columns)


def _reduced(shape: Shape, axes: Any, keeps: Any) -> Shape | None:
    axes = (axes,) if type(axes) is int else axes
    if not axes or not _are_numbers(axes) or type(keeps) is not bool:
        return None  # without axes it depends on the operator
    gone = {axis % len(shape) for axis in axes}
    return tuple(1 if axis in gone else d for axis, d in enumerate(shape) if keeps or axis not in gone)


def _sliced(shape: Shape, given: Sequence[Any]) -> Shape | None:
    """Return slices of whole axes, and by numbers of axes that have one; masks are those of TensorFlow."""
    (begin, end, strides), masks = given[1:4], given[4:]
    if not all(isinstance(s, tuple) for s in (begin, end, strides)) or any(type(m) is not int for m in masks):
        return None
    begin_mask, end_mask, ellipsis, new_axis, shrunk = masks
    if ellipsis or new_axis or not len(begin) == len(end) == len(strides) <= len(shape):
        return None
    found: list[Dim] = []
    for axis, size in enumerate(shape):
        if axis >= len(begin):
            found.append(size)
            continue
        first: Any = None if begin_mask >> axis & 1 else begin[axis]
        last: Any = None if end_mask >> axis & 1 else end[axis]
        last = last.dim if isinstance(last, Size) else last
        if shrunk >> axis & 1:
            if isinstance(size, str):
                return None
        elif first in (0, None) and last in (size, None) and strides[axis] == 1:
            found.append(size)
        elif isinstance(size, int) and {type(first), type(last)} <= {int, type(None)}:
            found.append(len(range(size)[first : last : strides[axis]]))
        else:
            return None
    return tuple(found)


def _shaped(op: str, before: Shape, wanted: Sequence[Dim]) -> Shape | None:
    """Return the result of an operator whose second operand says a shape; None in it is -1."""
    padded = (1,) * (len(wanted) - len(before)) + before
    if op == "Reshape":
        found = completed(wanted, product(before))
        fits = wanted.count(None) <= 1 and product(found) == product(before)
    elif op == "Tile":
        found = tuple(map(product, zip(padded, wanted, strict=True))) if len(padded) == len(wanted) else ()
        fits = bool(found)
    else:
        found = tuple(d if w is None else w for d, w in zip(padded, wanted, strict=False))
        fits = len(padded) == len(wanted) and all(d in (1, s) for d, s in zip(padded, found, strict=True))
    return found if fits and None not in found else None
