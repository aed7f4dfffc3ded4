"""Lowerings of torchvision's own operators: regions, suppression of boxes, deformable convolutions."""

from __future__ import annotations

import numpy as np

from ....ir import Value
from ....ir.composites.terms import Term, maximum, where
from ...deformable import Windows, build_deformable_convolution
from ...lowering_table import LoweringTable
from ..call import Call

TABLE = LoweringTable[Call]("torch")

_ALL = np.iinfo(np.int64).max


def _regions(call: Call, mode: str) -> Value:
    """Return the bins of regions, whose rows are the number of an image and two corners."""
    b, rows = call.b, Term(call.b, call.value("rois"))
    corners = rows.op("Slice", *(Term(b, b.constant([n])) for n in (1, 5, 1)))
    images = rows.op("Gather", Term(b, b.constant(0)), axis=1).cast("int64")
    return call.op(
        "RoiAlign", call.value("input"), corners.value, images.value, mode="avg",
        output_height=call.int("pooled_height"), output_width=call.int("pooled_width"),
        sampling_ratio=max(call.int("sampling_ratio"), 0), spatial_scale=call.float("spatial_scale"),
        coordinate_transformation_mode=mode,
    )  # fmt: skip


@TABLE.op("torchvision.roi_align.default")
def roi_align(call: Call) -> Value:
    """Return means of bilinear samples in each bin of each region."""
    return _regions(call, "half_pixel" if call.flag("aligned") else "output_half_pixel")


@TABLE.op("torchvision.ps_roi_align.default")
def position_sensitive_roi_align(call: Call) -> list[Value | None]:
    """Return means of bilinear samples, each bin from channels of its own."""
    if 1 in call.reads:
        raise call.unsupported("expected no use of the map of channels, which training alone reads")
    found = _regions(call, "half_pixel")
    height, width = call.int("pooled_height"), call.int("pooled_width")
    (channels,), bins = call.static_shape("input", [1]), height * width
    count = call.shape("rois")[0]
    apart = call.reshape(found, [count, channels // bins, bins, bins])
    own = Term(call.b, call.constant(np.eye(bins, dtype=bool)))
    sums = call.op("ReduceSum", where(own, Term(call.b, apart), 0.0).value, call.constant([2]), keepdims=0)
    return [call.reshape(sums, [count, channels // bins, height, width]), None]


def _below(number: float) -> float:
    """Return the largest float32 that is not above a number, beyond which the same float32 numbers lie."""
    found = np.float32(number)
    return float(found if float(found) <= number else np.nextafter(found, np.float32(-np.inf)))


@TABLE.op("torchvision.nms.default")
def suppression(call: Call) -> Value:
    """The places of the boxes that no better one overlaps by more than the threshold, the best first."""
    b, boxes = call.b, Term(call.b, call.value("dets"))
    low, high = (boxes.op("Slice", *(Term(b, b.constant([n])) for n in (k, k + 2, 1))) for k in (0, 2))
    # ONNX swaps corners in the wrong order; in torchvision such a box overlaps none, as one without an area
    corners = b.op("Concat", low.value, maximum(low, high).value, axis=1)
    scores = call.op("Unsqueeze", call.value("scores"), call.constant([0, 1]))
    threshold = call.constant([_below(call.float("iou_threshold"))], "float32")
    chosen = call.op(
        "NonMaxSuppression", call.op("Unsqueeze", corners, call.constant([0])), scores,
        call.constant([_ALL]), threshold,
    )  # fmt: skip
    return call.op("Gather", chosen, call.constant(2), axis=1)


@TABLE.op("torchvision.deform_conv2d.default")
def deformable_convolution(call: Call) -> Value:
    """A convolution whose windows take bilinear samples at moved places; pixels outside the image are 0."""
    axes, is_modulated = ("h", "w"), call.flag("use_mask")
    if not is_modulated:
        call.ignore("mask")
    kernel = call.static_shape("weight", [2, 3])
    windows = Windows(kernel, *([call.int(f"{n}_{a}") for a in axes] for n in ("stride", "dilation", "pad")))
    found = build_deformable_convolution(
        call, call.value("input"), call.value("offset"), call.value("weight"), windows=windows,
        groups=call.int("groups"), parts=call.int("offset_groups"),
        factors=call.value("mask") if is_modulated else None, ends_at_pixels=False,
    )  # fmt: skip
    return call.op("Add", found, call.reshape(call.value("bias"), [1, *call.shape("bias"), 1, 1]))
