"""Convolutions whose windows take samples at places that a layer computes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..ir import Value
from ..ir.composites.terms import Term
from ..ir.dims import product
from .call import Call


@dataclass(frozen=True)
class Windows:
    """The windows of a convolution over two axes."""

    kernel: Sequence[int]
    strides: Sequence[int]
    dilations: Sequence[int]
    pads: Sequence[int]


def build_deformable_convolution(
    call: Call,
    x: Value,
    offset: Value,
    weight: Value,
    *,
    windows: Windows,
    groups: int,
    parts: int,
    factors: Value | None,
    ends_at_pixels: bool,
) -> Value:
    """Build the convolution by GridSample and one product, without a bias.

    Args:
        call: what is lowered.
        x: images.
        offset: how far each tap of each window is moved, down and across.
        weight: of the convolution.
        windows: where the windows lie before they are moved.
        groups: of channels, of the convolution.
        parts: groups of channels that have offsets of their own.
        factors: what each sample is multiplied by.
        ends_at_pixels: samples beyond the outermost pixels are 0; else they are mixed with pixels of 0.
    """
    kernel = windows.kernel
    channels, height, width = call.static_shape(x, [1, 2, 3])
    down, across = call.static_shape(offset, [2, 3])
    (filters,) = call.static_shape(weight, [0])
    batch, taps, outs = call.shape(x)[0], kernel[0] * kernel[1], down * across
    each = product((batch, parts))
    moved = Term(call.b, call.reshape(offset, [each, taps, 2, outs])).op("Transpose", perm=[0, 1, 3, 2])
    i, j, y, z = np.meshgrid(*map(np.arange, (*kernel, down, across)), indexing="ij")
    places = [
        at * stride - pad + tap * dilation
        for at, tap, stride, pad, dilation in zip(
            (y, z), (i, j), windows.strides, windows.pads, windows.dilations, strict=True
        )
    ]
    still = np.stack(places, -1).reshape(1, taps, outs, 2)
    at = moved + Term(call.b, call.constant(still, moved.dtype))
    size = Term(call.b, call.constant(np.array([height, width]), moved.dtype))
    scaled = (at * 2 + 1) / size - 1
    grid = scaled.op("Gather", Term(call.b, call.constant([1, 0])), axis=3)  # across, then down
    samples = Term(call.b, call.op(
        "GridSample", call.reshape(x, [each, channels // parts, height, width]), grid.value, mode="linear",
        align_corners=0, padding_mode="border" if ends_at_pixels else "zeros",
    ))  # fmt: skip
    if ends_at_pixels:
        inside = ((at >= 0) & (at < size)).cast(moved.dtype)
        kept = inside.op("ReduceMin", Term(call.b, call.constant([3])), keepdims=0)
        samples = samples * kept.op("Unsqueeze", Term(call.b, call.constant([1])))
    if factors is not None:
        samples = samples * Term(call.b, call.reshape(factors, [each, 1, taps, outs]))
    window = call.reshape(samples.value, [batch, groups, channels // groups * taps, outs])
    rows = call.reshape(weight, [1, groups, filters // groups, channels // groups * taps])
    return call.reshape(call.op("MatMul", rows, window), [batch, filters, down, across])
