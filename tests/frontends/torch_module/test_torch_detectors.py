"""Detectors: boxes that are selected by data, and asked for whether there are any."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from torch import nn

import regraft

from .test_torchvision_operators import OPERATORS, operators  # noqa: F401 - a fixture that sets itself up


class Detector(nn.Module):
    """Two convolutions, which give boxes and scores of three classes for each of 64 places."""

    least = 0.3

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.body = nn.Conv2d(3, 8, 3, 2, 1)
        self.head = nn.Conv2d(8, 7, 3, 2, 1)
        nn.init.normal_(self.head.weight, std=0.2)
        nn.init.constant_(self.head.bias, -0.5)

    def predict(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        seen = torch.relu(self.body(x))
        found = self.head(seen).flatten(2).transpose(1, 2)
        at = torch.stack(torch.meshgrid(torch.arange(8), torch.arange(8), indexing="xy"), -1).reshape(-1, 2)
        middle, half = (at + found[..., :2].tanh()) * 4, found[..., 2:4].exp() * 3
        return seen, torch.cat([middle - half, middle + half], -1), (3 * found[..., 4:]).sigmoid()


class OverImages(Detector):
    """A loop over images that goes on where no box is left, gives None there, and cuts what is too long."""

    overlap, apart, first = 0.2, 100.0, 0

    def forward(self, x: torch.Tensor) -> list[torch.Tensor | None]:
        _, every_box, every_score = self.predict(x)
        found: list[torch.Tensor | None] = [None] * len(x)
        for image, (boxes, scores) in enumerate(zip(every_box, every_score, strict=True)):
            kept = scores.amax(1) > self.least
            boxes, scores = boxes[kept], scores[kept]
            if not boxes.shape[0]:
                continue
            score, kind = scores.max(1, keepdim=True)
            rows = torch.cat([boxes, score, kind.float() + self.first], 1)[score.view(-1) > self.least + 0.1]
            if rows.shape[0] == 0:
                continue
            rows = rows[rows[:, 4].argsort(descending=True)[:40]]
            at = OPERATORS.nms(rows[:, :4] + rows[:, 5:] * self.apart, rows[:, 4], self.overlap)
            if at.shape[0] > 10:
                at = at[:10]
            found[image] = rows[at]
        return found


class BestOfEach(Detector):
    """The best of what a threshold leaves, fewer where it leaves fewer, and none of no boxes."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        _, boxes, scores = (found[0] for found in self.predict(x))
        kept = scores > self.least
        places, scores = torch.nonzero(kept), scores[kept]
        scores, order = scores.topk(min(30, len(places)))
        boxes, kinds = boxes[places[order, 0]], places[order, 1]
        if boxes.numel() == 0:
            return boxes, scores, kinds
        moved = boxes + (kinds.to(boxes) * (boxes.max() + 1))[:, None]
        at = OPERATORS.nms(moved, scores, 0.6)
        return boxes[at], scores[at], kinds[at]


class TwoStages(Detector):
    """Regions of the boxes that are left, a layer on each, and a threshold of its results."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(32, 5)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        from torchvision.ops import batched_nms

        seen, boxes, scores = self.predict(x)
        boxes, (score, kind) = boxes[0], scores[0].max(1)
        kept = torch.where(score > self.least)[0]
        boxes, score, kind = boxes[kept], score[kept], kind[kept]
        boxes = boxes[batched_nms(boxes, score, kind, 0.5)[:6]]
        regions = torch.cat([torch.zeros_like(boxes[:, :1]), boxes], 1)
        found = self.layer(OPERATORS.roi_align(seen, regions, 0.5, 2, 2, 2, False).flatten(1))
        kept = torch.where(found[:, 0] > 0)[0]
        return boxes[kept], found[kept]


class Masks(Detector):
    """A mask for each box that a threshold leaves, pasted into an image of its size."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        from torchvision.models.detection.roi_heads import paste_masks_in_image

        _, boxes, scores = self.predict(x)
        boxes = boxes[0][torch.where(scores[0].amax(1) > self.least)[0]]
        masks = (boxes[:, :1, None, None] + torch.linspace(0, 1, 36).reshape(1, 1, 6, 6)).sin()
        return boxes, paste_masks_in_image(masks, boxes, (32, 40))


class Counting(Detector):
    """A branch on how many boxes are left."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        _, boxes, scores = self.predict(x)
        found = boxes[scores.amax(2) > self.least]
        return found[:5] * 2 if len(found) > 5 else found


class CuttingMore(Counting):
    """A cut that leaves fewer than the number above which it is made."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        _, boxes, scores = self.predict(x)
        found = boxes[scores.amax(2) > self.least]
        return found[:4] if len(found) > 5 else found


class TheBest(Counting):
    """The best of more than there are in the example."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        _, _, scores = self.predict(x)
        found = scores[scores > self.least]
        return found.topk(190)[0] if len(found) > 190 else found


class ARowForNone(Counting):
    """A row of zeros where no box is left."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        _, boxes, scores = self.predict(x)
        found = boxes[scores.amax(2) > self.least]
        return found if len(found) else torch.zeros(1, 4)


def load_net(folder: Path) -> nn.Module:
    spec = importlib.util.spec_from_file_location(f"written_{folder.parent.name}", folder / "model.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.build(folder / "model.safetensors").eval()


@pytest.mark.parametrize("kind", [OverImages, BestOfEach, TwoStages, Masks])
def test_a_detector_selects_what_its_source_selects_also_nothing(
    kind: Callable[[], Detector], tmp_path: Path
) -> None:
    model = kind().eval()
    x = torch.randn(2 if kind is OverImages else 1, 3, 32, 32, generator=torch.Generator().manual_seed(1))
    graph = regraft.load(model, (x,), dynamic_batch=False)
    for target, out in (("onnx", tmp_path / "net.onnx"), ("torch", tmp_path / "net")):
        regraft.save(regraft.rewrite(graph, to=target).graph, out, to=target)
        report = regraft.verify(graph, out)
        assert report.passed, report.render()
    session = onnxruntime.InferenceSession(str(tmp_path / "net.onnx"), providers=["CPUExecutionProvider"])
    net = load_net(tmp_path / "net")
    counts = set()
    for images in (x, x * 0.01, x + 0.2):
        with torch.no_grad():
            wanted, written = model(images), net(images)
        run = session.run(None, {session.get_inputs()[0].name: images.numpy()})
        for rows, mine, theirs in zip(wanted, written, run, strict=True):
            each = torch.zeros(0, 6) if rows is None else rows
            counts.add(len(each))
            for found in (mine.numpy(), theirs):
                np.testing.assert_allclose(found, each, rtol=1e-4, atol=1e-4)
    assert 0 in counts
    assert max(counts) > 3


def test_another_selection_is_a_difference(tmp_path: Path) -> None:
    x = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(1))
    graph = regraft.load(OverImages().eval(), (x,), dynamic_batch=False)
    for setting, value in (("least", 0.32), ("overlap", 0.4), ("first", 1)):
        wrong = OverImages().eval()
        setattr(wrong, setting, value)
        other = regraft.rewrite(regraft.load(wrong, (x,), dynamic_batch=False)).graph
        report = regraft.verify(graph, other, causes=False)
        assert report.render().startswith("DIFFERENT"), (setting, report.render())


@pytest.mark.parametrize("kind", [Counting, CuttingMore, TheBest, ARowForNone])
def test_a_branch_on_a_count_with_another_result_is_refused_at_its_line(
    kind: Callable[[], Detector],
) -> None:
    with pytest.raises(regraft.ModelError, match=r"E104 .*how many elements .*test_torch_detectors") as found:
        regraft.load(kind(), (torch.randn(1, 3, 32, 32),))
    assert "x[:300]" in (found.value.hint or "")
