"""lower-resize: interpolations that MindSpore has no function for become products with matrices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .....ir import Builder, Graph, Operator, Value, numpy_dtype
from .....passes.pattern import PatternPass
from ....source.nearest_places import has_origins, nearest_places
from ...dialect import can_emit


@dataclass(frozen=True)
class LowerResize(PatternPass):
    """Write a Resize as one product an axis.

    What it does:
        Replaces a Resize of static spatial axes that no function of MindSpore computes by a MatMul with a
        constant matrix for every axis that it changes or crops: the matrix is what ONNX's reference
        evaluator makes of an identity. One to the nearest becomes a Gather an axis. One that changes no axis
        goes away.

    Why:
        Every mode of ONNX's Resize treats the axes one after the other, each linearly.
        MindSpore has some of the modes, sizes and ranks.

    Leaves alone:
        What MindSpore has a function for, symbolic axes, regions that are computed, and integers but the
        nearest.

    Refuses:
        Nothing.

    Example:
        >>> from regraft.ir import parse
        >>> graph = parse('''
        ... graph main {
        ...   %x = input "x" : f32[N,2,3]
        ...   %0 = const [1, 2, 5] : i64[3]
        ...   %y = Resize(%x, _, _, %0) {mode="cubic"} : f32[1,2,5]
        ...   return "y" = %y
        ... }''')
        >>> for change in LowerResize().run(graph):
        ...     print(change)
    """

    name: ClassVar[str] = "lower-resize"
    codes: ClassVar[dict[str, str]] = {
        "MS106": "an interpolation is a product with a matrix of weights, or takes the nearest places"
    }
    operators: ClassVar[tuple[str, ...]] = ("Resize",)

    def rewrite(self, graph: Graph, node: Operator) -> str:
        """Replace; see the class."""
        if can_emit(graph, node) or not _replace_each_axis(graph, node):
            return ""
        return "takes the nearest places" if _is_nearest(node) else "is written as products with matrices"


def _is_nearest(node: Operator) -> bool:
    return node.str("mode") == "nearest" and has_origins(node.str("coordinate_transformation_mode"))


def _replace_each_axis(graph: Graph, node: Operator) -> bool:
    """Replace a Resize of static spatial axes by one operator an axis; False where that cannot be.

    Every mode of ONNX's Resize treats each axis by itself, and linearly: resizing an axis is a product
    with a matrix, the reference evaluator's result for an identity.
    """
    data = graph.operands(node.key)[0]
    source, to = None if data is None else graph.type_of(data), node.types[0]
    if data is None or source is None or to is None or source.shape is None or to.shape is None:
        return False
    rank = len(source.shape)
    scales = graph.constant_value(dict(enumerate(graph.operands(node.key))).get(2))
    axes = [a % rank for a in node.ints("axes") or range(rank)]
    factors = {} if scales is None else dict(zip(axes, map(float, scales), strict=False))
    crops = _crops(graph, node, axes)
    if crops is None:
        return False
    sizes = zip(source.shape, to.shape, strict=True)
    pairs = [
        (a, n, m) for a, (n, m) in enumerate(sizes) if n != m or factors.get(a, 1.0) != 1.0 or a in crops
    ]
    changed = [(a, n, m) for a, n, m in pairs if isinstance(n, int) and isinstance(m, int)]
    if not pairs and None not in source.shape and len(graph.operands(node.key)) == 4:
        graph.replace_uses(Value(node.key), data)  # to the size that it has: every mode gives it back
        return True
    nearest = _is_nearest(node)
    floats = source.dtype in ("float32", "float16")
    if len(changed) != len(pairs) or not changed or not (floats or nearest):
        return False
    b = Builder(graph)
    value = data
    outside: dict[int, np.ndarray] = {}
    with b.inside(node.call, node.location):
        for axis, size, wanted in changed:
            if nearest:
                taken = _places(node, size, wanted, factors.get(axis))
                value = b.op("Gather", value, b.constant(taken, "int64"), axis=axis)
                continue
            crop = crops.get(axis, (0.0, 1.0))
            weights = _weights(node, size, wanted, factors.get(axis), crop).astype(numpy_dtype(source.dtype))
            outside[axis] = _is_outside(size, wanted, crop)
            if axis == rank - 1:
                value = b.op("MatMul", value, b.constant(weights))
            elif axis == rank - 2:
                value = b.op("MatMul", b.constant(weights.T.copy()), value)
            else:
                swap = list(range(rank))
                swap[axis], swap[-1] = swap[-1], swap[axis]
                product = b.op("MatMul", b.op("Transpose", value, perm=swap), b.constant(weights))
                value = b.op("Transpose", product, perm=swap)
        if crops and node.float("extrapolation_value") and any(map(np.any, outside.values())):
            value = _extrapolate(b, node, value, outside, rank)
    graph.replace_uses(Value(node.key), value)
    return True


Crops = dict[int, tuple[float, float]]
"""Axis -> the part of it that is resized, from where to where as shares of its last place."""


def _crops(graph: Graph, node: Operator, axes: list[int]) -> Crops | None:
    """Return what `tf_crop_and_resize` takes of each axis, nothing for other modes; None if not known."""
    if node.str("coordinate_transformation_mode") != "tf_crop_and_resize":
        return {}
    region = graph.constant_value(dict(enumerate(graph.operands(node.key))).get(1))
    if region is None or region.size != 2 * len(axes):
        return None
    starts, ends = np.split(region.reshape(-1), 2)
    crops = {a: (float(s), float(e)) for a, s, e in zip(axes, starts, ends, strict=True)}
    return {a: crop for a, crop in crops.items() if crop != (0.0, 1.0)}


def _is_outside(size: int, wanted: int, crop: tuple[float, float]) -> np.ndarray:
    """Return which places of the result lie outside of an axis."""
    start, end = (share * (size - 1) for share in crop)
    at = np.linspace(start, end, wanted) if wanted > 1 else np.array([(start + end) / 2])
    return (at < 0) | (at > size - 1)


def _extrapolate(
    b: Builder, node: Operator, value: Value, outside: dict[int, np.ndarray], rank: int
) -> Value:
    """Return the result with the value of what lies outside of some axis, whose weights are zeros."""
    found = np.zeros([1] * rank, bool)
    for axis, places in outside.items():
        found = found | places.reshape([-1 if a == axis else 1 for a in range(rank)])
    fill = b.scalar_like(node.float("extrapolation_value"), value)
    return b.op("Where", b.constant(found), fill, value)


def _places(node: Operator, size: int, wanted: int, scale: float | None) -> list[int]:
    """Return the places of an axis that the nearest of each place of the result are."""
    where, rounding = node.str("coordinate_transformation_mode"), node.str("nearest_mode")
    factor = wanted / size if scale is None else scale
    return [int(x) for x in nearest_places(where, rounding, size, wanted, factor)]


def _weights(
    node: Operator, size: int, wanted: int, scale: float | None, crop: tuple[float, float]
) -> np.ndarray:
    """Return the (size, wanted) matrix by which the reference evaluator resizes one axis."""
    import onnx
    from onnx.reference import ReferenceEvaluator

    attributes: dict[str, Any] = {
        k: v
        for k, v in node.attributes.items()
        if k not in ("axes", "keep_aspect_ratio_policy", "extrapolation_value")
    }
    resize = onnx.helper.make_node("Resize", ["x", "r", "s", "n"], ["y"], axes=[1], **attributes)
    resize.input[:] = ["x", "r", "s", ""] if scale is not None else ["x", "r", "", "n"]
    infos = [
        onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [size, size]),
        onnx.helper.make_tensor_value_info("r", onnx.TensorProto.FLOAT, [2]),
        onnx.helper.make_tensor_value_info("s", onnx.TensorProto.FLOAT, [1]),
        onnx.helper.make_tensor_value_info("n", onnx.TensorProto.INT64, [1]),
    ]
    outputs = [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [size, wanted])]
    proto = onnx.helper.make_model(onnx.helper.make_graph([resize], "resize", infos, outputs))
    given = {
        "x": np.eye(size, dtype=np.float32),
        "r": np.array(crop, np.float32),
        "s": np.array([scale or 1.0], np.float32),
        "n": np.array([wanted]),
    }
    (weights, *_) = list(ReferenceEvaluator(proto).run(None, given))
    return np.asarray(weights)
