"""fold-constants: operators whose operands are all constants become constants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..ir import (
    Array,
    Constant,
    Graph,
    Input,
    Operator,
    Parameter,
    TensorData,
    TensorType,
    Value,
    numpy_dtype,
    onnx_dtype,
)
from ..ir.analysis.evaluation import evaluate
from ..ir.types import dtype_name
from .base import Change, Pass
from .eliminate_identities import bypass, drop_idle, drop_idle_constants
from .places import Places
from .uniform_conditions import MASK, TAKEN_WHERE_TRUE, find_whole_operand, hides_nothing


@dataclass(frozen=True)
class FoldConstants(Pass):
    """Evaluate operators that do not depend on inputs or parameters.

    What it does:
        Runs an ONNX operator whose operands are all constants in the ONNX reference evaluator and puts the
        result, up to `limit` elements, in its place. A value of static shape without elements counts as
        constant, whatever computes it. A Where whose condition is the same everywhere, also when expanded to
        the batch, is replaced by the operand that it takes, and an attention loses a mask that hides nothing:
        models make both when they are given no mask.

    Why:
        Shape arithmetic and tables come out of tracing as dozens of operators; other passes and backends
        look for numbers. Few kernels of any runtime take tensors of no elements.

    Leaves alone:
        Parameters, which training changes. Random operators, operators with nested graphs, composites,
        DequantizeLinear (`dequantise` folds it), outputs of the graph (but for those of no elements, and
        those computed from them), and results longer than `limit`.

    Refuses:
        Nothing.

    Example:
        >>> from regraft.ir import parse
        >>> graph = parse('''
        ... graph main {
        ...   %x = input "x" : f32[2]
        ...   %a = const 2.0 : f32[]
        ...   %b = Sqrt(%a) : f32[]
        ...   %y = Mul(%x, %b) : f32[2]
        ...   return "y" = %y
        ... }''')
        >>> for change in FoldConstants().run(graph):
        ...     print(change)
        CF101 has constant operands only: now a constant f32[] - at `Sqrt`

    Attributes:
        limit: number of elements up to which a result is kept.
    """

    name: ClassVar[str] = "fold-constants"
    codes: ClassVar[dict[str, str]] = {
        "CF101": "an operator's operands are all constants",
        "CF102": "an operator's results have no elements",
        "CF103": "a condition is the same for every element",
        "CF104": "a mask hides nothing",
    }
    rewordings: ClassVar[frozenset[str]] = frozenset({"CF101", "CF102", "CF103", "CF104"})
    needs_dataflow: ClassVar[bool] = True

    limit: int = 4096

    def run(self, graph: Graph) -> list[Change]:
        """Fold; see the class."""
        places = Places(graph)
        changes: list[Change] = []
        for part in list(graph.subgraphs()):
            changes += _without_elements(part, places)
            bare = {key for key in part.order() if _is_bare(part, key)}
            for node in part.operators():
                if node.key not in part:
                    continue
                operands = part.operands(node.key)
                of_nothing = any(v is not None and v.node in bare for v in operands)
                result = self._evaluate(part, node, of_nothing)
                if result is None:
                    changes += _replace_decided(part, node, places)
                    continue
                place = places.of(part, node.key)
                constant = part.add_constant(TensorData.of(result))
                bare |= {constant.node} if of_nothing else set()
                part.replace_uses(Value(node.key), constant)
                part.remove(node.key)
                drop_idle_constants(part, operands)
                type_ = part.known_type(constant)
                changes.append(
                    Change("CF101", f"has constant operands only: now a constant {type_}", place=place)
                )
        return changes

    def _evaluate(self, part: Graph, node: Operator, of_nothing: bool) -> Array | None:
        """Return an operator's value; None where it is left alone, as an output is without `of_nothing`."""
        operands = part.operands(node.key)
        if not all(v is None or isinstance(part.producer(v), Constant) for v in operands) or not operands:
            return None
        if node.domain or not node.is_pure or node.traits.dequantises or len(node.types) != 1:
            return None
        arrays = [part.constant_value(v) for v in operands]
        if any(a is None and v is not None for a, v in zip(arrays, operands, strict=True)):
            return None  # a constant without data
        known = node.types[0]
        if part.is_output(Value(node.key)) and not of_nothing:
            return None
        if known is not None and not _fits(known.shape, self.limit):
            return None
        result = evaluate(node, arrays)
        if result is None or result.size > self.limit:
            return None
        if known is not None and onnx_dtype(known.dtype) != onnx_dtype(dtype_name(result.dtype)):
            return None  # the evaluator's element type is not the operator's
        return result


def _replace_decided(part: Graph, node: Operator, places: Places) -> list[Change]:
    """Remove a Where whose condition is the same everywhere, or an attention mask that hides nothing."""
    slot = find_whole_operand(part, node)
    if slot and not part.is_output(Value(node.key)):
        place = places.of(part, node.key)
        bypass(part, node, slot)
        truth = str(slot == TAKEN_WHERE_TRUE).lower()
        return [Change("CF103", f"its condition is {truth} everywhere", place=place)]
    if hides_nothing(part, node):
        mask = part.operands(node.key)[MASK]
        part.set_operand(node.key, MASK, None)
        drop_idle(part, [mask])
        return [Change("CF104", "its mask hides nothing", place=places.of(part, node.key))]
    return []


def _without_elements(part: Graph, places: Places) -> list[Change]:
    """Replace values without elements by constants; an input stays, and only its uses are replaced."""
    changes: list[Change] = []
    for key in part.order():
        node = part.node(key)
        if isinstance(node, Input):
            _replace_uses(part, Value(key), node.type, outputs=False)
        elif isinstance(node, Operator) and not node.subgraphs() and all(map(_is_empty, node.types)):
            place, operands = places.of(part, key), part.operands(key)
            if any(v is not None and isinstance(part.node(v.node), Parameter) for v in operands):
                continue
            for index, type_ in enumerate(node.types):
                _replace_uses(part, Value(key, index), type_, outputs=True)
            part.remove(key)
            drop_idle_constants(part, operands)
            changes.append(Change("CF102", f"has no elements: now a constant {node.types[0]}", place=place))
    return changes


def _is_bare(part: Graph, key: int) -> bool:
    """Whether a node is a constant without elements."""
    node = part.node(key)
    return isinstance(node, Constant) and 0 in node.data.shape


def _is_empty(type_: TensorType | None) -> bool:
    """Whether a value of this type is known to have no elements."""
    return type_ is not None and type_.is_static and 0 in (type_.shape or ())


def _replace_uses(part: Graph, value: Value, type_: TensorType | None, *, outputs: bool) -> None:
    """Make the users of a value without elements read a constant."""
    if type_ is None or not _is_empty(type_) or not part.is_read(value):
        return
    zeros = np.zeros(type_.static_shape(), numpy_dtype(type_.dtype))
    constant = part.add_constant(TensorData.of(zeros))
    if outputs:
        part.replace_uses(value, constant)
        return
    for user, slot in part.users(value):
        part.set_operand(user, slot, constant)


def _fits(shape: tuple[int | str | None, ...] | None, limit: int) -> bool:
    """Whether a shape can have at most `limit` elements, as far as it is known."""
    sizes = [d for d in shape or () if isinstance(d, int)]
    return int(np.prod(sizes, dtype=np.int64)) <= limit
