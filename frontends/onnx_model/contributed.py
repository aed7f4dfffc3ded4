"""Operators of ONNX Runtime's own domain that one or a few of ONNX's compute."""

from __future__ import annotations

import numpy as np

from ...ir import Value, numpy_dtype
from ...ir.table import Table
from .call import Call
from .fused_quantised import Rule
from .versions import grid_sample

CONTRIBUTED = Table[Rule]()
"""Operator of ONNX Runtime's own domain -> what it becomes."""


@CONTRIBUTED.op("Trilu")
def same(call: Call) -> Value:
    """Return ONNX's own operator, which came later."""
    return call.op(call.operator, *call.operands, **call.take_rest())


@CONTRIBUTED.op("GridSample")
def sampled(call: Call) -> Value:
    """Return ONNX's own, with the first names of its modes."""
    grid_sample(call)
    return same(call)


@CONTRIBUTED.op("GatherND")
def gather_nd(call: Call) -> Value:
    """Return ONNX's own, whose places are of 64 bits."""
    return call.op("GatherND", call.value(0), call.op("Cast", call.value(1), to=7))


@CONTRIBUTED.op("ExpandDims")
def expand_dims(call: Call) -> Value:
    """Return a value with one axis more."""
    axis = call.op("Cast", call.op("Reshape", call.value(1), call.ints([1])), to=7)
    return call.op("Unsqueeze", call.value(0), axis)


@CONTRIBUTED.op("Inverse")
def inverse(call: Call) -> Value:
    """Return the inverse of matrices."""
    return call.op("regraft.Inverse", call.value(0))


@CONTRIBUTED.op("CDist")
def distances(call: Call) -> Value:
    """Return the distance of every row of one matrix to every row of another, squared by default."""
    metric = call.take("metric", "sqeuclidean")
    if metric == "euclidean":
        return call.op("regraft.PairwiseDistances", call.value(0), call.value(1), p=2.0)
    if metric != "sqeuclidean":
        raise call.unsupported(f"expected the metric euclidean or sqeuclidean, got `{metric}`")
    a, b = (call.op("Unsqueeze", call.value(slot), call.ints([1 - slot])) for slot in (0, 1))
    return call.op("ReduceSumSquare", call.op("Sub", a, b), call.ints([-1]), keepdims=0)


@CONTRIBUTED.op("Pad")
def pad(call: Call) -> Value:
    """Return a padded value; the amounts may be a row of a matrix, and the filling a vector."""
    amounts, filling = call.array(1), call.optional(2)
    pads = (
        call.op("Reshape", call.value(1), call.ints([-1]))
        if amounts is None
        else call.ints(amounts.ravel().tolist())
    )
    return call.op("Pad", call.value(0), pads, _scalar(call, filling), mode=call.take("mode", "constant"))


@CONTRIBUTED.op("Range")
def numbers(call: Call) -> Value:
    """Return numbers from one to another, by steps of 1 where none are given."""
    start, limit, step = (_scalar(call, call.optional(slot)) for slot in (0, 1, 2))
    return call.op("Range", start, limit, call.scalar_like(1, call.value(0)) if step is None else step)


def _scalar(call: Call, value: Value | None) -> Value | None:
    """Return a number that may be a vector of one element as a scalar."""
    known = None if value is None else call.graph.type_of(value)
    if value is None or known is None or known.shape != (1,):
        return value
    return call.op("Squeeze", value, call.ints([0]))


@CONTRIBUTED.op("Unique")
def unique(call: Call) -> list[Value | None]:
    """Return the distinct elements of a vector, where each element's is among them, and how many it has."""
    if call.rank() != 1:
        raise call.unsupported(f"expected a vector, got {call.type()}")
    found = call.ops("Unique", call.value(0), outputs=4, sorted=0)
    return [found[0], found[2], found[3]]


@CONTRIBUTED.op("UnfoldTensor")
def windows(call: Call) -> Value:
    """Return windows on an axis, each along a new last axis."""
    rank = call.rank()
    axis, size, step = call.take("dim", -1) % rank, call.take("size"), call.take("step", 1)
    length = (call.type().shape or ())[axis]
    if not isinstance(length, int):
        raise call.unsupported("expected an axis of static size")
    places = np.arange(0, length - size + 1, step)[:, None] + np.arange(size)
    found = call.op("Gather", call.value(0), call.constant(places), axis=axis)
    kept = [at for at in range(rank + 1) if at != axis + 1]
    return call.op("Transpose", found, perm=[*kept, axis + 1])


@CONTRIBUTED.op("ConvTransposeWithDynamicPads")
def conv_transpose(call: Call) -> Value:
    """Return a transposed convolution, whose pads the file holds as an operand."""
    pads = call.array(2)
    if pads is None:
        raise call.unsupported("expected pads that the file holds")
    how = {**call.take_rest(), "pads": [int(n) for n in pads.ravel()]}
    return call.op("ConvTranspose", call.value(0), call.value(1), call.optional(3), **how)


@CONTRIBUTED.op("MatMulInteger16")
def product_of_integers(call: Call) -> Value:
    """Return a product of matrices of 16 bits, in 32."""
    to = 12 if call.dtype(0) == call.dtype(1) == "uint16" else 6
    return call.op("MatMul", *(call.op("Cast", call.value(slot), to=to) for slot in (0, 1)))


@CONTRIBUTED.op("CropAndResize")
def crop_and_resize(call: Call) -> Value:
    """Return boxes of images, each scaled to one size by its corners; a number outside the image."""
    size, shape, mode = call.array(3), call.type().shape or (), call.take("mode", "bilinear")
    if size is None or mode != "bilinear":
        raise call.unsupported("expected bilinear crops of a size that the file holds")
    if len(shape) != 4 or not all(isinstance(n, int) and n > 1 for n in shape[2:]):
        raise call.unsupported("expected images of a static height and width, of 2 rows and columns or more")
    boxes = call.ops("Split", call.value(1), call.ints([1] * 4), outputs=4, axis=1)  # each [boxes, 1]
    axes = [
        _places(call, boxes[at], boxes[at + 2], int(shape[2 + at]) - 1, int(size[at]))  # type: ignore[arg-type]
        for at in (0, 1)
    ]
    lead = call.op("Shape", call.op("Add", _at(call, axes[0], 2), _at(call, axes[1], 1)))
    wide = [call.op("Expand", _at(call, place, 2 - at), lead) for at, place in enumerate(axes)]
    scaled = [
        call.op("Sub", call.op("Mul", x, call.scalar_like(2 / (int(n) - 1), x)), call.scalar_like(1.0, x))  # type: ignore[arg-type]
        for x, n in zip(wide, shape[2:], strict=True)
    ]
    grid = call.op("Concat", *(_at(call, x, 3) for x in reversed(scaled)), axis=3)
    images = call.op("Gather", call.value(0), call.value(2), axis=0)
    found = call.op("GridSample", images, grid, align_corners=1, mode="linear", padding_mode="border")
    inside = [
        call.op(
            "And",
            call.op("GreaterOrEqual", x, call.scalar_like(0.0, x)),
            call.op("LessOrEqual", x, call.scalar_like(int(n) - 1, x)),  # type: ignore[arg-type]
        )
        for x, n in zip(wide, shape[2:], strict=True)
    ]
    filling = call.scalar_like(call.take("extrapolation_value", 0.0), found)
    return call.op("Where", _at(call, call.op("And", *inside), 1), found, filling)


def _places(call: Call, begin: Value, end: Value, last: int, count: int) -> Value:
    """Return where the samples of each box lie on an axis, in pixels, as [boxes, count].

    The order of its operations is ONNX Runtime's, as rounding decides whether an edge is inside the image.
    """
    dtype = numpy_dtype(call.graph.known_type(begin).dtype)
    if count == 1:
        middle = call.op("Mul", call.op("Add", begin, end), call.scalar_like(0.5, begin))
        return call.op("Mul", middle, call.scalar_like(last, begin))
    width = call.op("Mul", call.op("Sub", end, begin), call.scalar_like(last, begin))
    step = call.op("Div", width, call.scalar_like(count - 1, begin))
    first = call.op("Mul", begin, call.scalar_like(last, begin))
    return call.op("Add", first, call.op("Mul", call.constant(np.arange(count, dtype=dtype)), step))


def _at(call: Call, value: Value, axis: int) -> Value:
    return call.op("Unsqueeze", value, call.ints([axis]))
