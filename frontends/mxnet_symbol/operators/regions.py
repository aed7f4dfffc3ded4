"""Lowers the operators by which detectors sample feature maps: regions, and computed places."""

from __future__ import annotations

import math

import numpy as np

from ....ir import Value
from ....ir.composites.terms import Term, exp, maximum, truncate, where
from ....ir.dims import product
from ...deformable import Windows, build_deformable_convolution
from ...lowering_table import LoweringTable
from ..call import Call
from .boxes import MOST_PAIRS, columns, in_order, joined, paired, rows_at, shared_area, suppressed

TABLE = LoweringTable[Call]("MXNet")


@TABLE.op("_contrib_ROIAlign")
def roi_align(call: Call) -> Value:
    """Return regions by bilinear samples, averaged; rows of batch number and corners.

    MXNet leaves rows with a negative batch number as they are in memory; here they are the first image's.
    """
    x, regions = call.operands()
    height, width = call.ints("pooled_size")
    scale, samples = call.float("spatial_scale"), call.int("sample_ratio", -1)
    by_position, aligned = call.flag("position_sensitive"), call.flag("aligned")
    if call.static_shape(regions, [1]) == [4]:
        corners, batch = Term(call.b, regions), Term(call.b, regions).op("Shape", start=0, end=1)
        images = Term(call.b, call.op("Expand", call.constant(0), batch.value))
    else:
        rows = Term(call.b, regions)
        corners = columns(rows, 1, 4)
        images = columns(rows, 0).op("Squeeze", Term(call.b, call.constant([-1]))).cast("int64").clip(0)
    found = call.op(
        "RoiAlign", x, corners.value, images.value, output_height=height, output_width=width,
        sampling_ratio=max(samples, 0), spatial_scale=scale, mode="avg",
        coordinate_transformation_mode="half_pixel" if aligned else "output_half_pixel",
    )  # fmt: skip
    if not by_position:
        return found
    (channels,) = call.static_shape(x, [1])
    shape, bins = call.shape(found), height * width
    apart = call.reshape(found, [shape[0], channels // bins, bins, bins])
    own = Term(call.b, call.constant(np.eye(bins, dtype=bool)))  # each bin has channels of its own
    sums = call.op("ReduceSum", where(own, Term(call.b, apart), 0.0).value, call.constant([2]), keepdims=0)
    return call.reshape(sums, [shape[0], channels // bins, height, width])


@TABLE.op("ROIPooling")
def roi_pooling(call: Call) -> Value:
    """Return the maxima of the bins of regions, whose corners are rounded; 0 for a negative batch number.

    Regions are data, so masks say which places a bin covers.
    """
    x, rows = Term(call.b, call.value(0)), Term(call.b, call.value(1))
    scale, size = call.float("spatial_scale"), call.ints("pooled_size")
    channels, height, width = call.static_shape(axes=[1, 2, 3])
    (count,) = call.static_shape(rows.value, [0])
    call.bounded(count * channels * height * width * max(size), 1 << 28)
    last = Term(call.b, call.constant([-1]))
    scaled = columns(rows, 1, 4) * scale
    corners = scaled.op("Sign") * (abs(scaled) + 0.5).op("Floor")
    number = columns(rows, 0).op("Squeeze", last)
    images = x.op("Gather", number.clip(0).cast("int64"), axis=0)
    lowest = float(np.finfo(np.float32).min)
    for axis, bins, length in ((3, size[1], width), (2, size[0], height)):
        inside = _bins(call, corners, axis, bins, length)  # region, bin, place
        shape = [1, 1, 1, bins, length] if axis == 3 else [1, 1, bins, length, 1]
        inside = Term(call.b, call.reshape(inside.value, [count, *shape[1:]]))
        spread = images.op("Unsqueeze", Term(call.b, call.constant([axis])))
        kept = where(inside, spread, lowest)
        images = kept.op("ReduceMax", Term(call.b, call.constant([axis + 1])), keepdims=0)
    known = Term(call.b, call.reshape((number >= 0).value, [count, 1, 1, 1]))
    return where((images > lowest) & known, images, 0.0).value


def _bins(call: Call, corners: Term, axis: int, bins: int, length: int) -> Term:
    """Return whether each bin of each region covers each place along an axis."""
    first = columns(corners, 3 - axis)
    sides = (columns(corners, 5 - axis) - first + 1).clip(1)
    step = sides / bins
    place = Term(call.b, call.constant(np.arange(bins, dtype=np.float32)))
    start = ((step * place).op("Floor") + first).clip(0, length)
    end = ((step * (place + 1)).op("Ceil") + first).clip(0, length)
    last = Term(call.b, call.constant([-1]))
    at = Term(call.b, call.constant(np.arange(length, dtype=np.float32)))
    return (start.op("Unsqueeze", last) <= at) & (end.op("Unsqueeze", last) > at)


def _anchors(call: Call, height: int, width: int, stride: int) -> np.ndarray:
    """The anchors of every place of a map, in its order, each as corners in pixels: [places * kinds, 4]."""
    kinds: list[list[float]] = []
    centre = 0.5 * (stride - 1)
    for ratio in call.floats("ratios", (0.5, 1.0, 2.0)):
        for scale in call.floats("scales", (4.0, 8.0, 16.0, 32.0)):
            wide = math.floor(math.sqrt(math.floor(stride * stride / ratio)) + 0.5) * scale
            tall = math.floor(wide / scale * ratio + 0.5) * scale
            sides = [0.5 * (wide - 1), 0.5 * (tall - 1)]
            kinds.append([centre - sides[0], centre - sides[1], centre + sides[0], centre + sides[1]])
    y, x = np.meshgrid(np.arange(height) * stride, np.arange(width) * stride, indexing="ij")
    shifts = np.stack([x, y, x, y], -1).reshape(-1, 1, 4)
    return (shifts + np.array(kinds)[None]).reshape(-1, 4).astype(np.float32)


@TABLE.op("_contrib_Proposal", "_contrib_MultiProposal")
def proposal(call: Call) -> list[Value]:
    """Regions that a network proposes: the best, without what a better one overlaps, again from the first.

    Rows of batch number and corners, and their scores.
    """
    x, offsets, images = (Term(call.b, v) for v in call.operands())
    before, after = call.int("rpn_pre_nms_top_n", 6000), call.int("rpn_post_nms_top_n", 300)
    threshold, least, stride = (
        call.float("threshold", 0.7),
        call.float("rpn_min_size", 16),
        call.int("feature_stride", 16),
    )
    plain, scored = call.flag("iou_loss"), call.flag("output_score")
    doubled, height, width = call.static_shape(axes=[1, 2, 3])
    batch, kinds = call.shape()[0], doubled // 2
    places = height * width
    count = kinds * places
    anchors = Term(call.b, call.constant(_anchors(call, height, width, stride)))
    looked = min(before, count) if before > 0 else count
    call.bounded(looked * looked, MOST_PAIRS)
    bounds = [Term(call.b, call.constant([n])) for n in (kinds, doubled, 1)]
    scores = x.op("Slice", *bounds).op("Transpose", perm=[0, 2, 3, 1])
    scores = Term(call.b, call.reshape(scores.value, [batch, count, 1]))
    moved = Term(call.b, call.reshape(offsets.value, [batch, kinds, 4, height, width]))
    moved = moved.op("Transpose", perm=[0, 3, 4, 1, 2])
    moved = Term(call.b, call.reshape(moved.value, [batch, count, 4]))
    info = images.op("Unsqueeze", Term(call.b, call.constant([1])))
    boxes = anchors + moved if plain else _grown(call, anchors, moved)
    limits = joined(call, [columns(info, n) - 1 for n in (1, 0, 1, 0)])
    boxes = maximum(boxes.op("Min", limits), boxes * 0)
    row, column = np.divmod(np.arange(count) // kinds, width)
    for at, size in ((row, 0), (column, 1)):
        real = truncate(columns(info, size) / stride)
        there = Term(call.b, call.constant(at.astype(np.float32)[:, None])) < real
        scores = where(there, scores, -1.0)
    smallest = columns(info, 2) * least
    sides = columns(boxes, 2, 2) - columns(boxes, 0, 2) + 1
    small = (columns(sides, 0) < smallest) | (columns(sides, 1) < smallest)
    half = smallest / 2
    wider = joined(call, [columns(boxes, 0, 2) - half, columns(boxes, 2, 2) + half])
    boxes, scores = where(small, wider, boxes), where(small, -1.0, scores)
    rows = joined(call, [boxes, scores])
    rows, best = in_order(call, rows, scores.op("Squeeze", Term(call.b, call.constant([-1]))), looked)
    corners = columns(rows, 0, 4)
    sides = columns(corners, 2, 2) - columns(corners, 0, 2) + 1
    whole = joined(call, [columns(corners, 0, 2), columns(corners, 2, 2) + 1])
    shared = shared_area(*paired(whole))
    first, second = paired(columns(sides, 0) * columns(sides, 1))
    hides = (shared / (first + second - shared) > threshold).op("Squeeze", Term(call.b, call.constant([-1])))
    kept = suppressed(call, best.equals(best) | best.op("IsNaN"), hides, looked)
    rows, _ = in_order(call, rows, _first_kept(call, kept, looked), looked)
    left = kept.cast("int64").op("ReduceSum", Term(call.b, call.constant([1]))).op("Min", min(after, looked))
    chosen = Term(call.b, call.constant(np.arange(after)[None])).op("Mod", left)
    (found,) = (rows_at(rows, chosen, 5),)
    numbers = _batch_numbers(call, found)
    flat = [
        call.reshape(joined(call, [numbers, columns(found, 0, 4)]).value, [product((batch, after)), 5]),
        call.reshape(columns(found, 4).value, [product((batch, after)), 1]),
    ]
    return flat if scored else flat[:1]


def _first_kept(call: Call, kept: Term, count: int) -> Term:
    """Return scores by which those kept come first, each group in its order."""
    place = Term(call.b, call.constant(np.arange(count, dtype=np.float32)))
    return where(kept, count - place, -place)


def _batch_numbers(call: Call, rows: Term) -> Term:
    """Return the number of the image that each row is of."""
    ones = columns(rows, 0) * 0 + 1
    return ones.op("CumSum", Term(call.b, call.constant(0)), exclusive=1)


def _grown(call: Call, anchors: Term, offsets: Term) -> Term:
    """Return boxes from offsets to anchors in pixels, whose last pixel belongs to them."""
    sides = columns(anchors, 2, 2) - columns(anchors, 0, 2) + 1
    centre = columns(anchors, 0, 2) + (sides - 1) * 0.5
    middle = columns(offsets, 0, 2) * sides + centre
    half = (exp(columns(offsets, 2, 2)) * sides - 1) * 0.5
    return joined(call, [middle - half, middle + half])


@TABLE.op("_contrib_DeformableConvolution", "_contrib_ModulatedDeformableConvolution")
def deformable_convolution(call: Call) -> Value:
    """Return a convolution whose window takes bilinear samples at places that a layer computes.

    Samples outside the image are 0; in the modulated form the pixels outside are 0, and each sample has a
    factor.
    """
    modulated = call.operator.startswith("_contrib_Modulated")
    call.ignore("workspace", "im2col_step", "num_filter", "layout")
    x, offset, *rest = call.operands()
    factors = rest.pop(0) if modulated else None
    weight, bias = rest[0], (rest[1] if not call.flag("no_bias") and len(rest) > 1 else None)
    kernel = call.ints("kernel")
    stride, dilate, pad = (
        call.ints(k, d) or list(d) for k, d in (("stride", (1, 1)), ("dilate", (1, 1)), ("pad", (0, 0)))
    )
    groups, parts = call.int("num_group", 1), call.int("num_deformable_group", 1)
    if len(kernel) != 2:
        raise call.unsupported(f"expected a kernel of two axes, got {kernel}")
    found = build_deformable_convolution(
        call, x, offset, weight, windows=Windows(kernel, stride, dilate, pad), groups=groups, parts=parts,
        factors=factors, ends_at_pixels=not modulated,
    )  # fmt: skip
    if bias is None:
        return found
    return call.op("Add", found, call.reshape(bias, [1, *call.shape(bias), 1, 1]))
