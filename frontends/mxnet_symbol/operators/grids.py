"""Samples of an image at the places of a grid, and what comes of shifted or overlapping patches."""

from __future__ import annotations

import numpy as np

from ....ir import Value
from ....ir.dims import product
from ...formulas import patches
from ...lowering_table import LoweringTable
from ..call import Call

TABLE = LoweringTable[Call]("MXNet")


def _affine_grid(call: Call, theta: Value, size: list[int]) -> Value:
    """The grid, x before y along its second axis, that matrices of 2 by 3 make of the places of an image."""
    height, width = size
    call.bounded(height * width * 2)
    y, x = np.meshgrid(_ends(height), _ends(width), indexing="ij")
    places = np.stack([x.ravel(), y.ravel(), np.ones(height * width)])
    batch = call.shape(theta)[0]
    matrices = call.reshape(theta, [batch, 2, 3])
    moved = call.op("MatMul", matrices, call.constant(places, call.dtype_of(theta)))
    return call.reshape(moved, [batch, 2, height, width])


def _ends(size: int) -> np.ndarray:
    """Return places from -1 to 1, of which the ends are pixels."""
    return -1 + np.arange(size) * 2 / max(size - 1, 1)


def _sampled(call: Call, x: Value, grid: Value) -> Value:
    """Return an image at the places of a grid, bilinear; what is outside is 0."""
    last = call.op("Transpose", grid, perm=[0, 2, 3, 1])
    return call.op("GridSample", x, last, mode="linear", padding_mode="zeros", align_corners=1)


@TABLE.op("GridGenerator")
def grid_generator(call: Call) -> Value:
    """Return the grid of an affine map, or of a flow in pixels."""
    x, kind, size = call.value(0), call.text("transform_type"), call.ints("target_shape", (0, 0))
    if kind == "affine":
        return _affine_grid(call, x, size)
    if kind != "warp":
        raise call.unsupported(f"expected the transform_type affine or warp, got {kind}")
    height, width = call.static_shape(x, [2, 3])
    places = np.stack(np.meshgrid(np.arange(width), np.arange(height)))[None].astype(np.float32)
    scale = np.array([max(width - 1, 1), max(height - 1, 1)], np.float32).reshape(1, 2, 1, 1) / 2
    moved = call.op("Div", call.op("Add", x, call.constant(places)), call.constant(scale))
    return call.op("Sub", moved, call.scalar_like(1, moved))


@TABLE.op("BilinearSampler")
def bilinear_sampler(call: Call) -> Value:
    """Return an image at the places of a grid."""
    call.ignore("cudnn_off")
    return _sampled(call, *call.operands())


@TABLE.op("SpatialTransformer")
def spatial_transformer(call: Call) -> Value:
    """Return an image moved by an affine map."""
    call.ignore("cudnn_off")
    x, theta = call.operands()
    kinds = call.text("transform_type", "affine"), call.text("sampler_type", "bilinear")
    if kinds != ("affine", "bilinear"):
        raise call.unsupported(f"expected an affine map and bilinear samples, got {kinds}")
    size = call.ints("target_shape", (0, 0))
    size = [given or own for given, own in zip(size, call.static_shape(x, [2, 3]), strict=True)]
    return _sampled(call, x, _affine_grid(call, theta, size))


@TABLE.op("im2col")
def im2col(call: Call) -> Value:
    """Return patches as columns: (batch, channels * kernel, places)."""
    x, kernel = call.value(0), call.ints("kernel")
    stride, dilate, pad = (_two(call, *of) for of in (("stride", 1), ("dilate", 1), ("pad", 0)))
    call.static_shape(x, [2, 3])
    found = patches(call, x, kernel, stride, dilate, pad)
    batch, channels, *sizes = call.shape(found)
    return call.reshape(found, [batch, channels * product(sizes[:2]), product(sizes[2:])])


@TABLE.op("col2im")
def col2im(call: Call) -> Value:
    """Return the image whose patches are given, where they overlap their sum."""
    x, size, kernel = call.value(0), call.ints("output_size"), call.ints("kernel")
    stride, dilate, pad = (_two(call, *of) for of in (("stride", 1), ("dilate", 1), ("pad", 0)))
    return call.op(
        "Col2Im", x, call.constant(size), call.constant(kernel),
        strides=stride, dilations=dilate, pads=[*pad, *pad],
    )  # fmt: skip


def _two(call: Call, key: str, default: int) -> list[int]:
    return call.ints(key, ()) or [default, default]


@TABLE.op("Correlation")
def correlation(call: Call) -> Value:
    """Correlate two images, patch by patch, for every shift of the second: one channel per shift."""
    x, y = call.operands()
    size, most = call.int("kernel_size", 1), call.int("max_displacement", 1)
    strides = call.int("stride1", 1), call.int("stride2", 1)
    pad, multiply = call.int("pad_size", 0), call.flag("is_multiply", default=True)
    height, width = call.static_shape(axes=[2, 3])
    border = most + size // 2
    reach = most // strides[1]
    call.bounded((2 * reach + 1) ** 2, 1 << 12)
    pads = call.constant([0, 0, pad, pad, 0, 0, pad, pad])
    x, y = (call.op("Pad", v, pads, call.scalar_like(0, v)) for v in (x, y))
    sides = [n + 2 * pad - 2 * border for n in (height, width)]
    found: list[Value] = []
    for down in range(-reach, reach + 1):
        for across in range(-reach, reach + 1):
            parts = [
                _window(call, v, [most + by[0], most + by[1]], [s + size - 1 for s in sides])
                for v, by in ((x, (0, 0)), (y, (down * strides[1], across * strides[1])))
            ]
            alike = call.op("Mul", *parts) if multiply else call.op("Abs", call.op("Sub", *parts))
            found.append(call.op("ReduceMean", alike, call.constant([1]), keepdims=1))
    return call.op(
        "AveragePool", call.op("Concat", *found, axis=1), kernel_shape=[size, size], strides=[strides[0]] * 2
    )


def _window(call: Call, x: Value, start: list[int], size: list[int]) -> Value:
    end = [a + n for a, n in zip(start, size, strict=True)]
    return call.op("Slice", x, call.constant(start), call.constant(end), call.constant([2, 3]))
