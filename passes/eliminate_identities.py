"""eliminate-identities: operators whose output is their input are removed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..ir import Array, Constant, Graph, Operator, TensorType, Value, onnx_dtype
from .base import Change, Pass
from .places import Places

_PAST_ANY_END = 2**31 - 1  # what exporters write for "to the end"


@dataclass(frozen=True)
class EliminateIdentities(Pass):
    """Remove operators whose output is their input.

    What it does:
        Removes Identity, Dropout of ratio 0, a Cast to the type the value has, a Transpose that moves
        nothing, a Reshape, Expand, Squeeze or Flatten to the static shape the value has, a Reshape of one
        axis to ``[-1]``, a Pad by nothing, a Slice of everything, a Concat of one, a product or quotient with
        the number 1, and a module's Relu of its own Abs. Also an Expand, and what only computes its shape,
        where every user is elementwise and has another operand of that shape; and a Transpose that undoes the
        one before it in the same call.

    Why:
        They come from tracing, hide patterns from the other passes and cost a line each in the result.

    Leaves alone:
        Dropout of any other ratio: it matters in training. An identity between two of the graph's inputs,
        parameters and outputs: an output needs an operator of its own in ONNX.

    Refuses:
        Nothing.

    Example:
        >>> from regraft.ir import parse
        >>> graph = parse('''
        ... graph main {
        ...   %x = input "x" : f32[N,4]
        ...   %0 = Transpose(%x) {perm=[0, 1]} : f32[N,4]
        ...   %y = Relu(%0) : f32[N,4]
        ...   return "y" = %y
        ... }''')
        >>> for change in EliminateIdentities().run(graph):
        ...     print(change)
        EI101 changes nothing - at `Transpose`
    """

    name: ClassVar[str] = "eliminate-identities"
    codes: ClassVar[dict[str, str]] = {
        "EI101": "an operator gives back its input",
        "EI102": "a value is expanded for operators that broadcast",
        "EI103": "a transpose undoes the one before it",
    }
    rewordings: ClassVar[frozenset[str]] = frozenset({"EI101", "EI102", "EI103"})
    needs_dataflow: ClassVar[bool] = True

    def run(self, graph: Graph) -> list[Change]:
        """Eliminate; see the class."""
        places = Places(graph)
        changes: list[Change] = []
        for part in list(graph.subgraphs()):
            for node in part.operators():
                if node.key not in part:
                    continue
                if is_identity(part, node) and _is_free(part, node):
                    changes.append(Change("EI101", "changes nothing", place=places.of(part, node.key)))
                    bypass(part, node)
                elif _is_broadcast_anyway(part, node):
                    message = "its users broadcast themselves"
                    changes.append(Change("EI102", message, place=places.of(part, node.key)))
                    bypass(part, node)
                elif (source := _turned_back(part, node)) is not None:
                    place = places.of(part, node.key)
                    changes.append(Change("EI103", "undoes the one before it", place=place))
                    part.replace_uses(Value(node.key), source)
                    before = part.operands(node.key)
                    part.remove(node.key)
                    drop_idle(part, before)
        return changes


def is_identity(part: Graph, node: Operator) -> bool:
    """Whether an operator's first output always equals its first operand, in training too."""
    operands = part.operands(node.key)
    if node.domain or not operands or operands[0] is None:
        return False
    before, after = part.type_of(operands[0]), node.types[0]
    match node.op_type:
        case "Identity":
            return True
        case "Dropout":
            ratio = part.constant_value(operands[1]) if len(operands) > 1 else None
            return ratio is not None and float(ratio) == 0.0 and len(node.types) == 1
        case "Cast":
            return before is not None and onnx_dtype(before.dtype) == node.attribute("to")
        case "Transpose":
            perm = node.ints("perm")
            return bool(perm) and moves_nothing(perm)
        case "Reshape" if before is not None and before.rank == 1 and _is_flat(part, operands[1]):
            return True
        case "Reshape" | "Expand" | "Squeeze" | "Flatten":
            return same_static_shape(before, after)
        case "Concat":
            return len(operands) == 1
        case "Mul" | "Div":
            one = part.constant_value(operands[1])
            if one is None or one.size != 1 or not (one == 1).all():
                return False
            return before is not None and before == after and None not in (before.shape or (None,))
        case "Relu":
            producer = part.producer(operands[0])
            if not isinstance(producer, Operator) or producer.op_type != "Abs":
                return False
            return producer.call == node.call
        case "Pad":
            pads = part.constant_value(operands[1])
            return pads is not None and not pads.any()
        case "Slice":
            return _takes_everything([None if v is None else part.constant_value(v) for v in operands[1:]])
        case _:
            return False


def _is_flat(part: Graph, shape: Value | None) -> bool:
    """Whether a shape is one axis of what elements there are."""
    found = None if shape is None else part.constant_value(shape)
    return found is not None and found.tolist() == [-1]


def _turned_back(part: Graph, node: Operator) -> Value | None:
    """Return the value whose axes a Transpose puts back in order; None for any other operator."""
    value = part.operands(node.key)[0] if node.qualified_name == "Transpose" else None
    first = None if value is None else part.producer(value)
    if not isinstance(first, Operator) or first.qualified_name != "Transpose" or first.call != node.call:
        return None
    inner, outer = first.ints("perm"), node.ints("perm")
    if not inner or len(inner) != len(outer) or not moves_nothing([inner[axis] for axis in outer]):
        return None
    source = part.operands(first.key)[0]
    if part.is_output(Value(node.key)) and (
        source is None or not isinstance(part.producer(source), Operator) or part.is_output(source)
    ):
        return None
    return source


def _is_broadcast_anyway(part: Graph, node: Operator) -> bool:
    """Whether every user broadcasts an expanded value to that shape by another operand anyway."""
    if node.op_type != "Expand" or node.domain or part.is_output(Value(node.key)):
        return False
    to, users = node.types[0], part.users(Value(node.key))
    if to is None or to.shape is None or None in to.shape or not users:
        return False
    for key, slot in users:
        user = part.operator(key)
        others = [v for at, v in enumerate(part.operands(key)) if at != slot and v is not None]
        shapes = [t.shape for v in others if v != Value(node.key) and (t := part.type_of(v)) is not None]
        if (
            user.call != node.call or not user.traits.broadcasting or to.shape not in shapes
        ):  # a module returns its shape
            return False
    return True


def _takes_everything(bounds: Sequence[Array | None]) -> bool:
    """Whether a Slice's starts and ends (and axes, steps) select every element."""
    starts, ends = bounds[:2]
    steps = bounds[3] if len(bounds) > 3 else np.ones(1)
    if starts is None or ends is None or steps is None:
        return False
    return not starts.any() and bool((ends >= _PAST_ANY_END).all()) and bool((steps == 1).all())


def moves_nothing(perm: Sequence[int]) -> bool:
    """Whether a permutation is the identity.

    Example:
        >>> moves_nothing([0, 1, 2]), moves_nothing([0, 2, 1])
        (True, False)
    """
    return list(perm) == list(range(len(perm)))


def same_static_shape(before: TensorType | None, after: TensorType | None) -> bool:
    """Whether two types have one shape with at most one dimension that is not a number.

    The elements are the same, so one dimension, bearing the same symbol, cannot differ.
    """
    if before is None or after is None or before.shape is None or before.shape != after.shape:
        return False
    open_ = [d for d in before.shape if not isinstance(d, int)]
    return not open_ or (len(open_) == 1 and open_[0] is not None)


def _is_free(part: Graph, node: Operator) -> bool:
    """Whether removal leaves no output without an operator, and no two outputs that are one value."""
    value, operand = Value(node.key), part.operands(node.key)[0]
    assert operand is not None
    if not part.is_output(value):
        return True
    return isinstance(part.producer(operand), Operator) and not part.is_output(operand)


def bypass(part: Graph, node: Operator, slot: int = 0) -> None:
    """Replace an operator's output by one of its operands, and remove what only the other operands needed."""
    operands = part.operands(node.key)
    kept = operands[slot]
    assert kept is not None
    part.replace_uses(Value(node.key), kept)
    producer = part.producer(kept)
    known = node.types[0]
    if isinstance(producer, Operator) and known is not None:
        found = producer.types[kept.output]
        if found is None or (found.shape is None and found.dtype == known.dtype):
            producer.types[kept.output] = known
    part.remove(node.key)
    drop_idle(part, [*operands[:slot], *operands[slot + 1 :]])


def drop_idle(part: Graph, operands: Sequence[Value | None]) -> None:
    """Remove operands that nothing uses any more, and the operators that computed only them."""
    waiting = [v.node for v in operands if v is not None]
    while waiting:
        key = waiting.pop()
        if key not in part or not isinstance(part.node(key), (Constant, Operator)):
            continue
        returned = any(v.node == key for v in (*dict(part.outputs).values(), *part.updates.values()))
        if not part.flow.out_degree(key) and not returned:
            waiting += part.flow.pred[key]
            part.remove(key)


def drop_idle_constants(part: Graph, operands: Sequence[Value | None]) -> None:
    """Remove operands that are unused constants."""
    for key in dict.fromkeys(v.node for v in operands if v is not None):
        idle = not part.flow.out_degree(key) and not any(v.node == key for _, v in part.outputs)
        if isinstance(part.node(key), Constant) and idle:
            part.remove(key)
