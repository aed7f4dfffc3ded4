"""Operators that compute the same with the axes of values in another order, and what changes in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ...ir import Array, Graph, Operator

Perm = tuple[int, ...]
"""The axes of a value, in the order in which a Transpose with this `perm` gives them."""

_ALONG_AXIS = frozenset({"Concat", "Hardmax", "LogSoftmax", "Softmax", "Split"})
_QUANTISING = frozenset({"DequantizeLinear", "QuantizeLinear"})
_OF_TWO = frozenset({"PRelu"})
"""Elementwise operators whose second operand spreads over the first."""

_PLANES = 2
"""Leading axes along which targets neither resize nor reflect: the examples and the channels."""

_NOT_MOVED = frozenset({"BitShift", "CastLike"})


@dataclass(frozen=True, slots=True)
class Turned:
    """An operator whose values have their axes in another order.

    Attributes:
        slots: the operands that have that order.
        attributes: its attributes that change.
        constants: slot -> array that takes the place of its operand.
        settled: whether its results have the axes that they had: those in another order are gone.
    """

    slots: tuple[int, ...]
    attributes: dict[str, object] = field(default_factory=dict[str, object])
    constants: dict[int, Array] = field(default_factory=dict[int, Array])
    settled: bool = False


def invert(perm: Sequence[int]) -> Perm:
    """Return the permutation that undoes another.

    Example:
        >>> invert([0, 2, 3, 1])
        (0, 3, 1, 2)
    """
    return tuple(sorted(range(len(perm)), key=perm.__getitem__))


def compose(first: Sequence[int], second: Sequence[int]) -> Perm:
    """Return the permutation of a Transpose by `second` behind one by `first`.

    Example:
        >>> compose([0, 2, 3, 1], [0, 3, 1, 2])
        (0, 1, 2, 3)
    """
    return tuple(first[axis] for axis in second)


def turn_operator(part: Graph, node: Operator, perm: Perm) -> Turned | None:
    """Return an operator for operands before a Transpose by `perm`; None where it needs the axes as they are.

    Axis ``a`` of a value is axis ``perm[a]`` of the value before the Transpose. Results of rank ``len(perm)``
    have the operands' order, but for `Turned.settled`.

    Args:
        part: the graph that has it.
        node: the operator.
        perm: the permutation.
    """
    rank, traits = len(perm), node.traits
    if node.domain or node.op_type in _NOT_MOVED or node.subgraphs():
        return None
    operands = part.operands(node.key)
    if traits.reduction:
        return _turn_reduction(part, node, perm)
    if any(t is None or t.rank != rank for t in node.types):
        return None
    if traits.elementwise:
        several = traits.broadcasting or node.op_type in _OF_TWO
        return Turned(tuple(range(len(operands))) if several else (0,))
    if node.op_type in ("Dropout", "Identity"):
        return Turned((0,))
    if node.op_type in _ALONG_AXIS:
        slots = tuple(range(len(operands))) if node.op_type == "Concat" else (0,)
        return Turned(slots, {"axis": perm[node.int("axis") % rank]})
    if node.op_type in _QUANTISING:
        scale = part.type_of(operands[1]) if operands[1] is not None else None
        if scale is None or scale.rank not in (0, 1):
            return None
        return Turned((0,), {"axis": perm[node.int("axis") % rank]} if scale.rank else {})
    match node.op_type:
        case "Pad":
            return _turn_pad(part, node, perm)
        case "Slice":
            return _turn_slice(part, node, perm)
        case "Resize":
            return _turn_resize(part, node, perm)
        case "Tile":
            repeats = part.constant_value(operands[1])
            return None if repeats is None else Turned((0,), {}, {1: _reorder(repeats, perm)})
        case _:
            return None


def _reorder(values: Array, perm: Perm) -> Array:
    """Return one number an axis, in the order of the axes before a Transpose."""
    return values[list(invert(perm))]


def _map_axes(axes: Array, perm: Perm) -> Array:
    """Return axes as they were before a Transpose."""
    return np.asarray([perm[int(axis) % len(perm)] for axis in axes.reshape(-1)], np.int64)


def _turn_reduction(part: Graph, node: Operator, perm: Perm) -> Turned | None:
    rank = len(perm)
    operands = part.operands(node.key)
    data = part.type_of(operands[0]) if operands and operands[0] is not None else None
    if data is None or data.rank != rank:
        return None
    keeps = bool(node.int("keepdims"))
    if node.op_type in ("ArgMax", "ArgMin"):
        axes = np.asarray([node.int("axis")])
        turned = Turned((0,), {"axis": perm[node.int("axis") % rank]}, settled=not keeps)
    elif len(operands) < 2 or operands[1] is None:
        return None if node.int("noop_with_empty_axes") else Turned((0,), settled=not keeps)
    else:
        found = part.constant_value(operands[1])
        if found is None or not found.size:
            return None
        axes, turned = found, Turned((0,), {}, {1: _map_axes(found, perm)}, settled=not keeps)
    gone = {int(axis) % rank for axis in axes.reshape(-1)}
    left = [perm[axis] for axis in range(rank) if axis not in gone]
    return turned if keeps or left == sorted(left) else None


def _turn_pad(part: Graph, node: Operator, perm: Perm) -> Turned | None:
    operands = part.operands(node.key)
    pads = part.constant_value(operands[1])
    if pads is None:
        return None
    if len(operands) > 3 and operands[3] is not None:
        axes = part.constant_value(operands[3])
        if axes is None or node.str("mode") != "constant":
            return None
        return Turned((0,), {}, {3: _map_axes(axes, perm)})
    low, high = (_reorder(half, perm) for half in np.split(pads, 2))
    if node.str("mode") != "constant" and (low[:_PLANES].any() or high[:_PLANES].any()):
        return None
    return Turned((0,), {}, {1: np.concatenate([low, high])})


def _turn_slice(part: Graph, node: Operator, perm: Perm) -> Turned | None:
    operands = part.operands(node.key)
    if len(operands) > 3 and operands[3] is not None:
        axes = part.constant_value(operands[3])
    else:
        starts = part.constant_value(operands[1])
        axes = None if starts is None else np.arange(starts.size)
    return None if axes is None else Turned((0,), {}, {3: _map_axes(axes, perm)})


def _turn_resize(part: Graph, node: Operator, perm: Perm) -> Turned | None:
    operands = [*part.operands(node.key), None, None, None][:4]
    cropping = node.str("coordinate_transformation_mode") == "tf_crop_and_resize"
    if cropping or node.str("keep_aspect_ratio_policy") != "stretch":
        return None
    if node.ints("axes"):
        return None
    data = None if operands[0] is None else part.type_of(operands[0])
    assert data is not None
    assert data.shape is not None
    constants: dict[int, Array] = {}
    for slot in (2, 3):
        sizes = part.constant_value(operands[slot])
        if operands[slot] is None or (sizes is not None and not sizes.size):
            continue
        if sizes is None or sizes.size != len(perm):
            return None
        constants[slot] = found = _reorder(sizes, perm)
        kept = [1] * _PLANES if slot == 2 else [data.shape[axis] for axis in invert(perm)[:_PLANES]]
        if list(found[:_PLANES]) != kept:
            return None
    return Turned((0,), {}, constants)
