"""Finds whether rounding has a say in which side of a jump a value lies on, or its numbers are exact."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from ...ir import Constant, Graph, Input, Operator, Parameter, Value, numpy_dtype
from ...ir.analysis.evaluation import evaluate_all
from ...ir.analysis.jumps import Jump, find_jumps
from ..compare import kind_of
from ..proof import upstream
from ..ties import chooses
from .singular import NEAR_JUMP, POLES, Singularities

_NAMES = """
Abs Add And Cast CastLike Ceil Clip Compress ConstantOfShape CumSum Div Equal Floor Greater GreaterOrEqual
IsInf IsNaN Less LessOrEqual MatMul Max Min Mod Mul Neg NonZero Not OneHot Or Pad Pow Range ReduceL1
ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Relu Round Shape Sign Size Sqrt Sub Sum
Trilu Where Xor
"""

_EXACT = frozenset(_NAMES.split())
"""Operators whose result in every runtime is the exact one where float has it, besides those that move."""

_CHOOSING = """
DynamicQuantizeLinear GridSample Hardmax MaxRoiPool NonMaxSuppression QuantizeLinear RoiAlign Unique
"""

_OPEN = frozenset(_CHOOSING.split())
"""Operators that choose by numbers, whose steps are not followed here."""

_MOST = 2**20
"""Elements of a value above which it is not computed again."""


class Exactness:
    """The numbers of a graph that reach its jumps, computed again without rounding.

    Args:
        graph: the source's graph; it is not changed.
        singular: its jumps and poles, as ONNX Runtime finds them.
    """

    def __init__(self, graph: Graph, singular: Singularities) -> None:
        self._graph, self._singular = graph, singular
        self._jumps = find_jumps(graph)

    def undecided(self, inputs: Mapping[str, np.ndarray], outputs: Collection[str]) -> str:
        """Describe an operator before some outputs where rounding, or a tie, decides; empty without one.

        Args:
            inputs: arrays by input name.
            outputs: names of the outputs.
        """
        graph = self._graph
        before: set[int] = set()
        for name, value in graph.outputs:
            if name in outputs:
                before |= set(upstream(graph, value, set()))
        operators = [node for key in sorted(before) if isinstance(node := graph.node(key), Operator)]
        for node in operators:
            if chooses(graph, node) or node.op_type in _OPEN or node.traits.control_flow or node.traits.loops:
                return graph.describe(node.key)
        exact: set[int] = set()
        plain, wide = _Values(graph, inputs, wide=False), _Values(graph, inputs, wide=True)
        for jump in self._jumps:
            if jump.node not in before:
                continue
            found = _is_decided(jump, plain, wide)
            if found is False:
                return graph.describe(jump.node)
            if found:
                exact.add(jump.node)
        for node in operators:
            if node.op_type in POLES and not node.domain:
                value = [v for v in graph.operands(node.key) if v is not None][-1]
                array, other = plain.of(value), wide.of(value)
                if array is not None and other is not None and np.array_equal(array, other):
                    exact.add(node.key)
        return self._singular.near(inputs, outputs, exact)


def _is_decided(jump: Jump, plain: _Values, wide: _Values) -> bool | None:
    """Whether every value that is close to a jump is an exact number; None where they are not computed."""
    sides = [(plain.of(v), wide.of(v)) for v in (jump.value, jump.other) if v is not None]
    if any(a is None or b is None for a, b in sides):
        return None
    arrays = [a.astype(np.float64) for a, _ in sides if a is not None]
    differing = [a.astype(np.float64) != b for a, b in sides if a is not None and b is not None]
    value = arrays[0]
    if not value.size or not arrays[-1].size:
        return True
    with np.errstate(all="ignore"):
        if jump.step:
            turns = value / jump.step + (0.5 if jump.half else 0.0)
            off = (turns - np.rint(turns)) * jump.step
        elif jump.other is None:
            off = np.min([np.abs(value - point) for point in jump.points], axis=0)
        elif jump.searched:
            off = np.min(np.abs(value[..., None] - arrays[1].reshape(-1)), axis=-1)
            differing = [differing[0], np.asarray(differing[1].any())]
        else:
            off = value - arrays[1]
        largest = max((float(np.abs(a[np.isfinite(a)]).max(initial=0.0)) for a in arrays), default=0.0)
        near = np.abs(off) <= NEAR_JUMP * largest
    return not any(bool((near & inexact).any()) for inexact in differing)


class _Values:
    """Values of a graph on some inputs, of operators that are exact.

    Args:
        graph: the graph.
        inputs: arrays by input name.
        wide: whether all is computed in float64.
    """

    def __init__(self, graph: Graph, inputs: Mapping[str, np.ndarray], *, wide: bool) -> None:
        self._graph, self._inputs, self._wide = graph, inputs, wide
        self._known: dict[Value, np.ndarray | None] = {}

    def of(self, value: Value) -> np.ndarray | None:
        """Return a value; None where an operator before it is not exact."""
        if value not in self._known:
            wanted = set(upstream(self._graph, value, set(self._known)))
            for key in self._graph.order():
                if key in wanted:
                    self._compute(key)
        return self._known.get(value)

    def _compute(self, key: int) -> None:
        node = self._graph.node(key)
        if isinstance(node, Operator):
            arrays = self._results(node)
        elif isinstance(node, Input):
            arrays = [self._inputs.get(node.name)]
        elif (
            isinstance(node, (Constant, Parameter))
            and node.data.load is not None
            and _is_small(node.data.shape)
        ):
            arrays = [node.data.numpy()]
        else:
            arrays = None
        for output in range(len(node.types)):
            array = None if arrays is None or output >= len(arrays) else arrays[output]
            self._known[Value(key, output)] = None if array is None else self._widened(array)

    def _widened(self, array: np.ndarray) -> np.ndarray:
        return array.astype(np.float64) if self._wide and kind_of(array) == "f" else array

    def _results(self, node: Operator) -> list[np.ndarray] | None:
        if node.domain or not (node.op_type in _EXACT or node.traits.moving or node.traits.selecting):
            return None
        if any(type_ is not None and not _is_small(type_.shape or ()) for type_ in node.types):
            return None
        arrays: list[np.ndarray | None] = []
        for operand in self._graph.operands(node.key):
            found = None if operand is None else self._known.get(operand)
            if operand is not None and found is None:
                return None
            arrays.append(found)
        if node.op_type == "Div" and not _divides_exactly(arrays[1]):
            return None
        if node.op_type == "Cast" and arrays[0] is not None and node.types[0] is not None:
            with np.errstate(all="ignore"):
                return (
                    [arrays[0].astype(numpy_dtype(node.types[0].dtype))]
                    if not (self._wide and "float" in node.types[0].dtype)
                    else [arrays[0].astype(np.float64)]
                )
        with np.errstate(all="ignore"):
            return evaluate_all(node, arrays, len(node.types))


def _divides_exactly(divisor: np.ndarray | None) -> bool:
    """Whether a division is a multiplication by the reciprocal, which others may write for it."""
    if divisor is None or kind_of(divisor) != "f":
        return True
    mantissas = np.frexp(np.abs(divisor.astype(np.float64)))[0]
    return bool(np.isin(mantissas, (0.0, 0.5)).all())


def _is_small(shape: tuple[int | str | None, ...]) -> bool:
    size = 1
    for dim in shape:
        size *= dim if isinstance(dim, int) else 1
    return size <= _MOST
