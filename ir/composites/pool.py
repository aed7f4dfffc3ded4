"""Pools that ONNX does not have: of a given output size, MXNet's "full" rounding convention, unpooling."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import ceil, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ..dims import differ
from ..errors import BackendError
from ..signatures import AttributeSpec
from ..traits import Traits
from ..types import Array, TensorType
from .base import CompositeTable
from .terms import Term, terms_of

if TYPE_CHECKING:
    from ..builder import Builder
    from ..nodes import Operator, Value

TABLE = CompositeTable()


def _infer(operator: Operator, types: Sequence[TensorType | None]) -> list[TensorType | None]:
    x, size = types[0], operator.ints("output_size")
    if x is None or x.shape is None:
        return [x]
    lead = len(x.shape) - len(size)
    return [x.with_shape((*x.shape[:lead], *size))]


def averaging_matrix(size: int, output: int) -> Array:
    """Return the (output, size) matrix of adaptive averaging along one axis.

    Window i covers [floor(i*size/output), ceil((i+1)*size/output)), the rule of torch, MindSpore and MXNet.
    """
    matrix = np.zeros((output, size), np.float64)
    for i in range(output):
        start, stop = i * size // output, ceil((i + 1) * size / output)
        matrix[i, start:stop] = 1.0 / (stop - start)
    return matrix


def _bounds(b: Builder, x: Value, axis: int, out: int) -> tuple[Term, Term, Term]:
    """Return the starts and ends, both [out, 1], of the windows along an open axis, and its length."""
    size = Term(b, b.op("Squeeze", b.op("Shape", x, start=axis, end=axis + 1), b.constant([0])))
    at = np.arange(out)[:, None]
    start = Term(b, b.constant(at)) * size / out
    end = (Term(b, b.constant(at + 1)) * size + (out - 1)) / out
    return start, end, size


def _places(b: Builder, size: Term) -> Term:
    return Term(b, b.op("Range", b.constant(0), size.value, b.constant(1)))


def _averages(b: Builder, x: Value, axis: int, out: int, dtype: str) -> Value:
    """Return the transposed matrix of adaptive averaging along an axis of an open size."""
    start, end, size = _bounds(b, x, axis, out)
    places = _places(b, size)
    inside = ((places >= start) & (places < end)).cast(dtype)
    return (inside / (end - start).cast(dtype)).op("Transpose", perm=[1, 0]).value


def _expand(b: Builder, operator: Operator, operands: Sequence[Value | None]) -> list[Value]:
    """One pool where all windows are alike, else a product along each axis, of computed weights if open."""
    x, output = operands[0], operator.ints("output_size")
    assert x is not None
    if all(size == 1 for size in output):
        return [b.op("GlobalAveragePool", x)]
    type_ = b.graph.known_type(x)
    rank = len(type_.shape or ()) or len(output) + 2
    sizes = (type_.shape or (None,) * rank)[-len(output) :]
    static = [size for size in sizes if isinstance(size, int)]
    if len(static) == len(output) and all(s % out == 0 for s, out in zip(static, output, strict=True)):
        window = [size // out for size, out in zip(static, output, strict=True)]
        return [b.op("AveragePool", x, kernel_shape=window, strides=window)]
    for axis, (size, out) in enumerate(zip(sizes, output, strict=True), rank - len(output)):
        if size == out:
            continue
        if out == 1:
            x = b.op("ReduceMean", x, b.constant([axis]), keepdims=1)
            continue
        if isinstance(size, int):
            matrix = b.constant(averaging_matrix(size, out).astype(type_.dtype).T.copy())
        else:
            matrix = _averages(b, x, axis, out, type_.dtype)
        if axis == rank - 1:
            x = b.op("MatMul", x, matrix)
        else:  # swap the axis to the end, average there, swap back
            perm = list(range(rank))
            perm[axis], perm[-1] = perm[-1], perm[axis]
            moved = b.op("MatMul", b.op("Transpose", x, perm=perm), matrix)
            x = b.op("Transpose", moved, perm=perm)
    return [x]


TABLE.add(
    "AdaptiveAveragePool",
    inputs="X",
    attributes=[AttributeSpec("output_size", "ints", required=True)],
    infer=_infer,
    expand=_expand,
    traits=Traits(pool=True),
    summary="average over the windows [floor(i*H/out), ceil((i+1)*H/out)) of the trailing axes",
)


# -- AdaptiveMaxPool -------------------------------------------------------------------------------------


def _infer_largest(operator: Operator, types: Sequence[TensorType | None]) -> list[TensorType | None]:
    (values,) = _infer(operator, types)
    return [values, None if values is None else TensorType("int64", values.shape)]


def _window_places(b: Builder, x: Value, axis: int, size: int | None, out: int) -> Term:
    """The (out, longest window) places of each window along an axis; a shorter one has its last again."""
    if size is None:
        start, end, _ = _bounds(b, x, axis, out)
        longest = (end - start).op("ReduceMax", keepdims=0)
        return (start + _places(b, longest)).op("Min", end - 1)
    at = np.arange(out)
    first, last = at * size // out, -(-(at + 1) * size // out) - 1
    longest = int((last - first).max(initial=0)) + 1
    return Term(b, b.constant(np.minimum(first[:, None] + np.arange(longest), last[:, None])))


def _expand_largest(b: Builder, operator: Operator, operands: Sequence[Value | None]) -> list[Value]:
    """Return values axis by axis, places by all windows at once: whoever reads none is spared these."""
    x, output = operands[0], operator.ints("output_size")
    assert x is not None
    shape = b.graph.known_type(x).shape
    rank = len(output) + 2 if shape is None else len(shape)
    axes = range(rank - len(output), rank)
    sizes = [n if shape is not None and isinstance(n := shape[axis], int) else None for axis in axes]
    tables = [_window_places(b, x, *row) for row in zip(axes, sizes, output, strict=True)]
    values = x
    for axis, size, out, table in zip(axes, sizes, output, tables, strict=True):
        if out == 1:
            values = b.op("ReduceMax", values, b.constant([axis]), keepdims=1)
        elif size != out:
            windows = b.op("Gather", values, table.value, axis=axis)
            values = b.op("ReduceMax", windows, b.constant([axis + 1]), keepdims=0)
    flat, count = tables[0], output[0]
    for axis, size, out, table in zip(axes[1:], sizes[1:], output[1:], tables[1:], strict=True):
        length = size or Term(b, b.op("Shape", x, start=axis, end=axis + 1))
        rows = flat.op("Unsqueeze", Term(b, b.constant([1, 3])))
        both = rows * length + table.op("Unsqueeze", Term(b, b.constant([0, 2])))
        count *= out
        flat = both.op("Reshape", Term(b, b.constant([count, -1])))
    lead = [0] * (rank - len(output))
    windows = b.op("Gather", b.op("Reshape", x, b.constant([*lead, -1])), flat.value, axis=-1)
    first = b.op("ArgMax", windows, axis=-1, keepdims=0)
    longest = Term(b, b.op("Shape", flat.value, start=1, end=2))
    number = b.op("Add", first, (Term(b, b.constant(np.arange(count))) * longest).value)
    places = b.op("Gather", b.op("Reshape", flat.value, b.constant([-1])), number, axis=0)
    return [
        b.op("Identity", x) if values == x else values,
        b.op("Reshape", places, b.constant([*lead, *output])),
    ]


TABLE.add(
    "AdaptiveMaxPool",
    inputs="X",
    outputs="Y places",
    attributes=[AttributeSpec("output_size", "ints", required=True)],
    infer=_infer_largest,
    expand=_expand_largest,
    traits=Traits(pool=True),
    summary="the largest of AdaptiveAveragePool's windows, and the first place in its plane that has it",
)


# -- MaxUnpool -------------------------------------------------------------------------------------------


def _infer_unpooled(operator: Operator, types: Sequence[TensorType | None]) -> list[TensorType | None]:
    x, places = types
    if places is not None and places.dtype != "int64":
        raise ValueError(f"expected places in int64, got {places}")
    own, others = (None if t is None else t.shape for t in types)
    if own is not None and others is not None and (len(own) != len(others) or any(map(differ, own, others))):
        raise ValueError(f"expected as many places as elements of {x}, got {places}")
    return _infer(operator, [x])


def _expand_unpooled(b: Builder, operator: Operator, operands: Sequence[Value | None]) -> list[Value]:
    x, places = terms_of(b, operands)
    output, rank = operator.ints("output_size"), len(b.type_of(x.value).shape or ())
    lead = rank - len(output)
    flat = b.constant([*[0] * lead, -1])
    sizes = b.op("Concat", b.op("Shape", x.value, end=lead), b.constant([prod(output)]), axis=0)
    empty = b.op("Expand", b.scalar_like(0, x.value), sizes)
    rows = (Term(b, b.op("Reshape", v.value, flat)) for v in (places, x))
    found = Term(b, empty).op("ScatterElements", *rows, axis=-1)
    return [b.op("Reshape", found.value, b.constant([*[0] * lead, *output]))]


TABLE.add(
    "MaxUnpool",
    inputs="X places",
    attributes=[AttributeSpec("output_size", "ints", required=True)],
    infer=_infer_unpooled,
    expand=_expand_unpooled,
    summary="planes of a given size, of zeros but for the elements of X at their places",
)


# -- FullPool ----------------------------------------------------------------------------------------------


def full_windows(size: int, kernel: int, stride: int, pads: tuple[int, int]) -> tuple[int, int]:
    """Return (number of windows, overhang of the last beyond the padded input) under the "full" convention.

    Example:
        >>> full_windows(5, 2, 3, (1, 1))
        (3, 1)
    """
    padded = size + pads[0] + pads[1]
    count = -(-(padded - kernel) // stride) + 1
    return count, max((count - 1) * stride + kernel - padded, 0)


def _full_sizes(operator: Operator, x: TensorType) -> list[int] | None:
    """Return the static spatial sizes, or None when one is symbolic."""
    spatial = (x.shape or ())[-len(operator.ints("kernel_shape")) :]
    sizes = [d for d in spatial if isinstance(d, int)]
    return sizes if len(sizes) == len(operator.ints("kernel_shape")) else None


def _full_pads(operator: Operator) -> list[tuple[int, int]]:
    rank = len(operator.ints("kernel_shape"))
    pads = operator.spatial("pads", rank)
    return list(zip(pads[:rank], pads[rank:], strict=True))


def _full_strides(operator: Operator) -> list[int]:
    return operator.spatial("strides", len(operator.ints("kernel_shape")))


def _infer_full(operator: Operator, types: Sequence[TensorType | None]) -> list[TensorType | None]:
    x = types[0]
    if x is None or x.shape is None:
        return [x]
    kernel, pads = operator.ints("kernel_shape"), _full_pads(operator)
    lead = len(x.shape) - len(kernel)
    spatial = [
        full_windows(d, k, s, p)[0] if isinstance(d, int) else None
        for d, k, s, p in zip(x.shape[lead:], kernel, _full_strides(operator), pads, strict=True)
    ]
    return [x.with_shape((*x.shape[:lead], *spatial))]


def window_counts(sizes: Sequence[int], operator: Operator, *, padding_counts: bool) -> Array:
    """Count the positions that each window covers: of the padded input, or of the real one alone."""
    kernel, pads, strides = operator.ints("kernel_shape"), _full_pads(operator), _full_strides(operator)
    per_axis: list[list[int]] = []
    for size, k, s, (before, after) in zip(sizes, kernel, strides, pads, strict=True):
        low, high = (0, before + size + after) if padding_counts else (before, before + size)
        windows = full_windows(size, k, s, (before, after))[0]
        per_axis.append([max(min(i * s + k, high) - max(i * s, low), 0) for i in range(windows)])
    counts = [prod(combination) for combination in product(*per_axis)]
    return np.array(counts, np.float64).reshape([len(axis) for axis in per_axis])


def _expand_full(b: Builder, operator: Operator, operands: Sequence[Value | None]) -> list[Value]:
    x, mode = operands[0], operator.str("mode")
    assert x is not None
    type_ = b.graph.known_type(x)
    sizes = _full_sizes(operator, type_)
    if sizes is None:
        raise BackendError(
            "E602",
            f"expected static spatial dimensions for a pool that rounds up, got `{type_}`",
            place=b.graph.describe(operator.key) if operator.key >= 0 else operator.op_type,
            hint="give the size with --input, or drop --dynamic for the spatial axes",
        )
    kernel, strides, pads = operator.ints("kernel_shape"), _full_strides(operator), _full_pads(operator)
    overhang = [full_windows(n, k, s, p)[1] for n, k, s, p in zip(sizes, kernel, strides, pads, strict=True)]
    begins = [p[0] for p in pads]
    ends = [p[1] + extra for p, extra in zip(pads, overhang, strict=True)]
    fits = all(max(begin, end) < k for begin, end, k in zip(begins, ends, kernel, strict=True))
    if not fits:  # runtimes refuse pads as long as the kernel: pad beforehand
        value = float(np.finfo(type_.dtype).min) if mode == "max" else 0.0
        rank = len(type_.shape or ())
        # the axes are named because ONNX Runtime would fuse a Pad without them back into the pool it refuses
        axes = b.constant(list(range(rank - len(kernel), rank)))
        x = b.op("Pad", x, b.constant([*begins, *ends]), b.scalar_like(value, x), axes)
        begins = ends = [0] * len(kernel)
    window: dict[str, Any] = {"kernel_shape": kernel, "strides": strides, "pads": [*begins, *ends]}
    if mode == "max":
        return [b.op("MaxPool", x, **window)]
    # ONNX divides by the whole kernel; times its size over what MXNet divides by
    y = b.op("AveragePool", x, count_include_pad=1, **window)
    counts = window_counts(sizes, operator, padding_counts=bool(operator.int("count_include_pad")))
    factor = (
        np.full(counts.shape, float(prod(kernel))) if mode == "sum" else prod(kernel) / np.maximum(counts, 1)
    )
    if (factor == 1).all():
        return [y]
    if (factor == factor.flat[0]).all():
        factor = factor.flat[0]
    return [b.op("Mul", y, b.constant(np.asarray(factor, type_.dtype)))]


TABLE.add(
    "FullPool",
    inputs="X",
    attributes=[
        AttributeSpec("mode", "string", required=True),
        AttributeSpec("kernel_shape", "ints", required=True),
        AttributeSpec("strides", "ints"),
        AttributeSpec("pads", "ints"),
        AttributeSpec("count_include_pad", "int", default=1),
    ],
    infer=_infer_full,
    expand=_expand_full,
    traits=Traits(pool=True),
    summary="max, average or sum over windows, as many as cover the padded input (the last may hang over)",
)
