"""Finds whether inputs come near a kink: a point where a piecewise function's gradient jumps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ...ir import Builder, Graph, Operator, RegraftError, Value, walk_operators
from ...ir.analysis.bends import find_bends
from ..compare import EPSILON
from ..probes import copy_to_probe
from ..runners.onnx_runner import OnnxRunner

_UNITS = 64
"""Units in the last place, of the largest value that enters a function, within which it is near a kink."""

_COMPARISONS = frozenset({"Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Equal", "Max", "Min"})
"""Operators that choose by the difference of their first two operands."""

_CHOOSING = frozenset({"ArgMax", "ArgMin", "ReduceMax", "ReduceMin", "GlobalMaxPool", "TopK"})
"""Operators that choose among the elements of some axes, so that two that are nearly equal change places."""

_ROUNDING = frozenset({"Round", "Floor", "Ceil"})


def near_kink(graph: Graph, inputs: Mapping[str, np.ndarray], ulps: int = 0) -> str | None:
    """Return the operator, with its place, that the inputs lead to a kink of in training; None without one.

    The graph runs in ONNX Runtime, with the statistics of the batch where a normalisation takes them in
    training. Of a graph that does not run so, and has a piecewise operator, the first one is given: nobody
    can say that its inputs are far from its kink.

    Args:
        graph: a source graph; it is not changed.
        inputs: arrays by input name.
        ulps: units in the last place by which the values of both sides may differ anyway.
    """
    piecewise = [n for _, n in walk_operators(graph) if _is_piecewise(n)]
    if not piecewise:
        return None
    probed = copy_to_probe(graph)
    _take_batch_statistics(probed)
    watched = list(_watched(probed))
    entered = {node.key for node, *_ in watched}
    names = graph.modules.call_names()
    inner = next((n for n in piecewise if n.key not in entered or n.key not in graph), None)
    within = len(piecewise) > sum(_is_piecewise(n) for n in graph.operators())
    b = Builder(probed)
    probed.outputs = [
        (f"watched {at} {side}", b.op("Cast", value, to=1))
        for at, (_, values, _) in enumerate(watched)
        for side, value in enumerate(values)
    ]
    try:
        outputs = OnnxRunner(probed, optimised=False).run(inputs, calls=False).outputs if watched else []
    except RegraftError:
        return _place(piecewise[0], names)
    found = iter(array for _, array in outputs)
    for node, values, is_near in watched:
        arrays = [next(found).astype(np.float64) for _ in values]
        scale = max((_scale(a) for a in arrays), default=0.0)
        coarsest = max((_epsilon(graph, v) for v in values), default=EPSILON["float32"])
        if is_near(arrays, max(_UNITS, ulps) * coarsest * scale):
            return _place(node, names)
    return _place(inner, names) if within and inner is not None else None


_IsNear = Callable[[Sequence[np.ndarray], float], bool]


def _is_piecewise(node: Operator) -> bool:
    if node.domain:
        return bool(node.traits.bends)
    known = _COMPARISONS | _CHOOSING | _ROUNDING | {"MaxPool", "Clip", "HardSigmoid", "Shrink"}
    return bool(node.traits.bends) or node.op_type in known | {"ThresholdedRelu"}


def _watched(graph: Graph) -> Iterator[tuple[Operator, list[Value], _IsNear]]:
    """Yield (operator, the values that decide, whether those are near a kink by a distance)."""
    for bend in find_bends(graph):
        node = graph.operator(bend.node)
        if not any(bend.regions) or (node.op_type in ("Where", "Max", "Min") and not node.domain):
            continue  # a bend of another function than this, or one that comparisons decide
        yield node, [bend.value], _near_points(bend.points)
    for node in graph.operators():
        values = [v for v in graph.operands(node.key) if v is not None]
        if node.domain or not values or not _is_real(graph, values[0]):
            continue
        if node.op_type in _COMPARISONS and len(values) == 2:
            yield node, values, _near_each_other
        elif node.op_type in _ROUNDING:
            yield node, values[:1], _near_halves
        elif node.op_type in _CHOOSING or node.op_type in _COMPARISONS:
            yield node, values[:1], _nearly_tied
        elif node.op_type == "MaxPool":
            yield node, values[:1], _nearly_tied_within(node)


def _near_points(points: Sequence[float]) -> _IsNear:
    return lambda arrays, distance: any(_is_close(arrays[0], point, distance) for point in points)


def _near_each_other(arrays: Sequence[np.ndarray], distance: float) -> bool:
    return _is_close(arrays[0], arrays[1], distance)


def _is_close(a: np.ndarray, b: np.ndarray | float, distance: float) -> bool:
    """Whether two values are near each other but not equal: zeros behind a rectifier are so on both sides."""
    with np.errstate(invalid="ignore"):
        apart = np.abs(a - b)
    return bool(((apart <= distance) & (apart > 0)).any())


def _near_halves(arrays: Sequence[np.ndarray], distance: float) -> bool:
    """Whether a value is near a whole number or the middle of two."""
    twice = 2 * arrays[0]
    return bool((np.abs(twice - np.rint(twice)) <= 2 * distance).any())


def _nearly_tied(arrays: Sequence[np.ndarray], distance: float) -> bool:
    """Whether two elements of an array are nearly equal; those that are equal are so on both sides."""
    ordered = np.sort(arrays[0], axis=None)
    return _is_close(ordered[1:], ordered[:-1], distance)


def _nearly_tied_within(node: Operator) -> _IsNear:
    """Return whether the two largest elements of a window of a MaxPool are nearly equal."""

    def is_near(arrays: Sequence[np.ndarray], distance: float) -> bool:
        (array,) = arrays
        rank = array.ndim - 2
        kernel, dilations = node.ints("kernel_shape"), node.spatial("dilations", rank)
        reach = tuple((k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True))
        sides = [(0, 0), (0, 0), *[(r - 1, r - 1) for r in reach]]  # any position of a window
        axes: Any = tuple(range(2, array.ndim))  # whose annotations know one axis alone
        padded = np.pad(array, sides, constant_values=-np.inf)
        windows = np.lib.stride_tricks.sliding_window_view(padded, reach, axis=axes)
        windows = windows[(..., *[slice(None, None, d) for d in dilations])]
        flat = windows.reshape(-1, int(np.prod(kernel)))
        if flat.shape[1] < 2 or flat.size > _LARGEST:
            return flat.shape[1] > 1
        second, first = np.moveaxis(np.partition(flat, (-2, -1), axis=1)[:, -2:], 1, 0)
        return _is_close(first, second, distance)

    return is_near


_LARGEST = 50_000_000
"""Elements of windows above which a MaxPool counts as near a kink without being looked at."""


def _take_batch_statistics(graph: Graph) -> None:
    """Give each normalisation by running statistics those of its batch."""
    b = Builder(graph)
    for node in graph.operators():
        if node.op_type != "BatchNormalization" or node.domain:
            continue
        x, *_ = graph.operands(node.key)
        type_ = None if x is None else graph.type_of(x)
        if x is None or type_ is None or type_.shape is None:
            continue
        axes = graph.add_constant(np.array([i for i in range(len(type_.shape)) if i != 1], np.int64))
        mean = b.op("ReduceMean", x, axes, keepdims=1)
        off = b.op("Sub", x, mean)
        spread = b.op("ReduceMean", b.op("Mul", off, off), axes, keepdims=0)
        graph.set_operand(node.key, 3, b.op("ReduceMean", x, axes, keepdims=0))
        graph.set_operand(node.key, 4, spread)


def _is_real(graph: Graph, value: Value) -> bool:
    type_ = graph.type_of(value)
    return type_ is not None and "float" in type_.dtype


def _epsilon(graph: Graph, value: Value) -> float:
    type_ = graph.type_of(value)
    return EPSILON.get("" if type_ is None else type_.dtype, EPSILON["float32"])


def _scale(array: np.ndarray) -> float:
    return float(np.abs(array[np.isfinite(array)]).max(initial=0.0))


def _place(node: Operator, names: Mapping[int, str]) -> str:
    """Describe an operator by its type and the call that it belongs to."""
    path = names.get(node.call or -1, "").rpartition("#")[0] if node.call is not None else ""
    return f"{node.op_type} of `{path}`" if path else node.op_type
