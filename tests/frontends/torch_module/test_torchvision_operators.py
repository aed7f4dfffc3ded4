"""Operators of torchvision's C++ library, which tests define by their schemas, with bodies in plain torch."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from torch.library import Library, register_fake
from torch.nn import functional as F

import regraft

from .comparison import Function

LIBRARY = Library("torchvision", "FRAGMENT")
OPERATORS = torch.ops.torchvision
BINS = "float spatial_scale, SymInt pooled_height, SymInt pooled_width"
SIZES = f"{BINS}, int sampling_ratio"
CONVOLUTION = ", ".join(
    f"SymInt {name}_{axis}" for name in ("stride", "pad", "dilation") for axis in ("h", "w")
)
SCHEMAS = {
    "nms": "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "roi_align": f"(Tensor input, Tensor rois, {SIZES}, bool aligned) -> Tensor",
    "ps_roi_align": f"(Tensor input, Tensor rois, {SIZES}) -> (Tensor, Tensor)",
    "roi_pool": f"(Tensor input, Tensor rois, {BINS}) -> (Tensor, Tensor)",
    "ps_roi_pool": f"(Tensor input, Tensor rois, {BINS}) -> (Tensor, Tensor)",
    "deform_conv2d": "(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, "
    f"{CONVOLUTION}, SymInt groups, SymInt offset_groups, bool use_mask) -> Tensor",
}


def nms(boxes: torch.Tensor, scores: torch.Tensor, threshold: float) -> torch.Tensor:
    kept: list[int] = []
    sides = boxes[:, 2:] - boxes[:, :2]
    for i in scores.argsort(descending=True, stable=True).tolist():
        shared = [
            (torch.minimum(boxes[i, 2:], boxes[k, 2:]) - torch.maximum(boxes[i, :2], boxes[k, :2])).clip(0)
            for k in kept
        ]
        areas = [
            s.prod() / (sides[i].prod() + sides[k].prod() - s.prod())
            for s, k in zip(shared, kept, strict=True)
        ]
        if not any(float(area) > threshold for area in areas):
            kept.append(i)
    return torch.tensor(kept, dtype=torch.int64)


def near(place: float, size: int) -> torch.Tensor:
    """How much each of several neighbours weighs in a sample."""
    return (1 - (torch.arange(size) - place).abs()).clip(0)


def roi_align(
    x: torch.Tensor, rows: torch.Tensor, scale: float, down: int, across: int, samples: int, aligned: bool
) -> torch.Tensor:
    found = []
    for image, *corners in rows.tolist():
        left, top, right, bottom = (c * scale - (0.5 if aligned else 0.0) for c in corners)
        sides = [max(s, -np.inf if aligned else 1.0) for s in (bottom - top, right - left)]
        means = torch.zeros(x.shape[1], down, across)
        for place in np.ndindex(down, across, samples, samples):
            at = [
                start + side / bins * (place[n] + (place[2 + n] + 0.5) / samples)
                for n, (start, side, bins) in enumerate(zip((top, left), sides, (down, across), strict=True))
            ]
            if all(-1 <= a <= size for a, size in zip(at, x.shape[2:], strict=True)):
                y, z = (min(max(a, 0.0), size - 1.0) for a, size in zip(at, x.shape[2:], strict=True))
                weights = [
                    (1 - (torch.arange(size) - a).abs()).clip(0)
                    for a, size in zip((y, z), x.shape[2:], strict=True)
                ]
                means[:, place[0], place[1]] += torch.einsum("chw,h,w->c", x[int(image)], *weights)
        found.append(means / samples**2)
    return torch.stack(found) if found else torch.zeros(0, x.shape[1], down, across)


def ps_roi_align(
    x: torch.Tensor, rows: torch.Tensor, scale: float, down: int, across: int, samples: int
) -> tuple[torch.Tensor, torch.Tensor]:
    whole = roi_align(x, rows, scale, down, across, samples, True)
    apart = whole.reshape(len(rows), -1, down, across, down, across)
    return torch.einsum("ncijij->ncij", apart).clone(), torch.zeros(1, dtype=torch.int32)


def pools(
    x: torch.Tensor, rows: torch.Tensor, scale: float, sides: tuple[int, int], *, largest: bool
) -> Iterator[tuple[tuple[int, ...], torch.Tensor, int, int]]:
    """(region and bin, the pixels of it, its first row, its first column) of every bin."""
    for region, (image, *corners) in enumerate(rows.tolist()):
        whole = [int(math.copysign(math.floor(abs(c * scale) + 0.5), c)) for c in corners]
        for bin_ in np.ndindex(*sides):
            bounds = []
            for axis, n in enumerate(bin_):
                low, high = whole[1 - axis], whole[3 - axis]
                size, end = max(high - low + largest, 1) / sides[axis], x.shape[2 + axis] - (not largest)
                at = math.floor(n * size) + low, math.ceil((n + 1) * size) + low
                bounds.append([min(max(a, 0), end) for a in at])
            (top, bottom), (left, right) = bounds
            yield (region, *bin_), x[int(image), :, top:bottom, left:right], top, left


def roi_pool(
    x: torch.Tensor, rows: torch.Tensor, scale: float, down: int, across: int
) -> tuple[torch.Tensor, torch.Tensor]:
    found = torch.zeros(len(rows), x.shape[1], down, across)
    places = torch.full(found.shape, -1, dtype=torch.int32)
    for (region, i, j), pixels, top, left in pools(x, rows, scale, (down, across), largest=True):
        if pixels.numel():
            found[region, :, i, j], at = pixels.flatten(1).max(1)
            row, column = at // pixels.shape[2] + top, at % pixels.shape[2] + left
            places[region, :, i, j] = (row * x.shape[3] + column).int()
    return found, places


def ps_roi_pool(
    x: torch.Tensor, rows: torch.Tensor, scale: float, down: int, across: int
) -> tuple[torch.Tensor, torch.Tensor]:
    numbers = torch.arange(x.shape[1], dtype=torch.int32).reshape(-1, down, across)
    found = torch.zeros(len(rows), *numbers.shape)
    for (region, i, j), pixels, _, _ in pools(x, rows, scale, (down, across), largest=False):
        if pixels.numel():
            found[region, :, i, j] = pixels.mean((1, 2)).reshape(-1, down, across)[:, i, j]
    return found, numbers.expand(len(rows), -1, -1, -1).clone()


def deform_conv2d(x: torch.Tensor, weight: torch.Tensor, offset: torch.Tensor, *rest: object) -> torch.Tensor:
    mask, bias, *numbers = rest
    sh, sw, ph, pw, dh, dw, groups, parts, masked = numbers
    (n, c, h, w), (o, _, kh, kw), (oh, ow) = x.shape, weight.shape, offset.shape[2:]
    padded = F.pad(x, (1, 1, 1, 1)).reshape(n, parts, c // parts, h + 2, w + 2)
    moved = offset.reshape(n, parts, kh, kw, 2, oh, ow)
    columns = torch.zeros(n, c, kh, kw, oh, ow)
    for image, part, i, j, y, z in np.ndindex(n, parts, kh, kw, oh, ow):
        at = (y * sh - ph + i * dh, z * sw - pw + j * dw)
        py, pz = (float(a + m) + 1 for a, m in zip(at, moved[image, part, i, j, :, y, z], strict=True))
        weights = [near(py, h + 2), near(pz, w + 2)]
        value = torch.einsum("chw,h,w->c", padded[image, part], *weights)
        if masked:
            value = value * mask.reshape(n, parts, kh, kw, oh, ow)[image, part, i, j, y, z]
        columns[image, part * (c // parts) : (part + 1) * (c // parts), i, j, y, z] = value
    rows = columns.reshape(n, groups, -1, oh * ow)
    found = torch.einsum("gok,ngkp->ngop", weight.reshape(groups, o // groups, -1), rows)
    return found.reshape(n, o, oh, ow) + bias.reshape(1, -1, 1, 1)


FAKES: dict[str, Callable[..., object]] = {
    "roi_align": lambda x, r, s, h, w, *_: x.new_empty(r.shape[0], x.shape[1], h, w),
    "ps_roi_align": lambda x, r, s, h, w, *_: (
        x.new_empty(r.shape[0], x.shape[1] // (h * w), h, w),
        x.new_empty(1, dtype=torch.int32),
    ),
    "roi_pool": lambda x, r, s, h, w: tuple(
        x.new_empty(r.shape[0], x.shape[1], h, w, dtype=t) for t in (x.dtype, torch.int32)
    ),
    "ps_roi_pool": lambda x, r, s, h, w: tuple(
        x.new_empty(r.shape[0], x.shape[1] // (h * w), h, w, dtype=t) for t in (x.dtype, torch.int32)
    ),
    "deform_conv2d": lambda x, w, o, *_: x.new_empty(x.shape[0], w.shape[0], *o.shape[2:]),
}


@pytest.fixture(scope="module", autouse=True)
def operators() -> None:
    """torchvision's Python code on the tests' own kernels, since its own are of another build of torch."""
    for name, body in (
        ("nms", nms),
        ("roi_align", roi_align),
        ("ps_roi_align", ps_roi_align),
        ("roi_pool", roi_pool),
        ("ps_roi_pool", ps_roi_pool),
        ("deform_conv2d", deform_conv2d),
    ):
        if not hasattr(OPERATORS, name):
            LIBRARY.define(name + SCHEMAS[name])
            LIBRARY.impl(name, body, "CPU")
            LIBRARY.define(f"{'qnms' if name == 'nms' else f'_{name}_backward'}(Tensor x) -> Tensor")
            if name in FAKES:  # torchvision has that of nms
                register_fake(f"torchvision::{name}", FAKES[name], lib=LIBRARY)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(Path(sys.prefix) / "torchvision")
        boxes = pytest.importorskip("torchvision.ops.boxes")
    boxes._assert_has_ops = lambda: None


ROWS = torch.tensor(
    [[0, 0, 1, 6, 7.5], [1, 2, 1, 9, 8], [0, 1.5, 2.2, 8.1, 6.3], [1, 0, 2, 0, 5], [0, 4, 4, 3, 2]]
)
BOXES = torch.tensor([[0, 0, 4, 4], [1, 0, 5, 4], [0, 0, 4, 3.5], [6, 6, 7, 9], [3, 3, 1, 5], [0, 0, 4, 4]])
MAP, OFFSETS = (2, 8, 9, 11), (2, 36, 5, 6)
CASES: dict[str, tuple[Callable[..., object], tuple[torch.Tensor, ...]]] = {
    "regions": (lambda x: OPERATORS.roi_align(x, ROWS, 0.5, 3, 2, 2, False), (torch.randn(MAP),)),
    "regions at half pixels": (
        lambda x: OPERATORS.roi_align(x, ROWS, 0.5, 3, 2, 2, True),
        (torch.randn(MAP),),
    ),
    "regions by position": (
        lambda x: OPERATORS.ps_roi_align(x, ROWS, 1.0, 2, 2, 2)[0],
        (torch.randn(MAP),),
    ),
    "largest of regions": (lambda x: OPERATORS.roi_pool(x, ROWS, 0.5, 3, 2), (torch.randn(MAP),)),
    "largest of regions beyond the edge": (
        lambda x: OPERATORS.roi_pool(x, ROWS * 1.5 - 0.5 * ROWS[:, :1], 1.0, 4, 3),
        (torch.randn(MAP) - 3,),
    ),
    "means of regions by position": (
        lambda x: OPERATORS.ps_roi_pool(x, ROWS, 1.0, 2, 2),
        (torch.randn(MAP),),
    ),
    "suppression": (
        lambda s: BOXES[OPERATORS.nms(BOXES, s, 0.5)] * 2,
        (torch.tensor([0.9, 0.8, 0.95, 0.1, 0.5, 0.2]),),
    ),
    "deformable convolution": (
        lambda x, o: OPERATORS.deform_conv2d(
            x, torch.linspace(-1, 1, 6 * 4 * 9).reshape(6, 4, 3, 3).cos(), o, torch.zeros(1, 1),
            torch.arange(6.0), 2, 2, 1, 1, 1, 1, 2, 2, False,
        ),
        (torch.randn(MAP), torch.randn(OFFSETS)),
    ),
    "modulated convolution": (
        lambda x, o, m: OPERATORS.deform_conv2d(
            x, torch.linspace(-1, 1, 4 * 8 * 4).reshape(4, 8, 2, 2).cos(), o, m.sigmoid(), torch.arange(4.0),
            1, 2, 1, 0, 2, 1, 1, 1, True,
        ),
        (torch.randn(1, 8, 6, 7), torch.randn(1, 8, 6, 3) * 2, torch.randn(1, 4, 6, 3)),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("function", "inputs"), CASES.values(), ids=list(CASES))
def test_an_operator_of_torchvision(
    function: Callable[..., object], inputs: tuple[torch.Tensor, ...], tmp_path: Path
) -> None:
    graph = regraft.load(Function(function), inputs, dynamic_batch=False)
    for target in ("onnx", "mindspore"):
        out = tmp_path / ("net.onnx" if target == "onnx" else "net")
        regraft.save(regraft.rewrite(graph).graph, out, to=target)
        report = regraft.verify(graph, out)
        assert report.passed, report.render()
    session = onnxruntime.InferenceSession(str(tmp_path / "net.onnx"), providers=["CPUExecutionProvider"])
    feeds = {i.name: x.numpy() for i, x in zip(session.get_inputs(), inputs, strict=True)}
    wanted = function(*inputs)
    for found, each in zip(
        session.run(None, feeds), wanted if isinstance(wanted, tuple) else (wanted,), strict=True
    ):
        np.testing.assert_allclose(found, each, rtol=1e-4, atol=1e-5)
