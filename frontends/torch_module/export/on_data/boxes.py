"""torchvision's functions of boxes whose code branches, or loops over boxes, by data; traced without."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    expand_boxes: Any  # of torchvision's file
    expand_masks: Any


@contextmanager
def boxes_together() -> Iterator[None]:
    """Let torchvision's functions of `_TOGETHER` compute all boxes at once inside the block."""
    with ExitStack() as stack:
        for (home, name), other in _TOGETHER.items():
            function = getattr(sys.modules.get(home), name, None)
            if isinstance(function, FunctionType):
                stack.callback(setattr, function, "__code__", function.__code__)
                function.__code__ = other.__code__  # models may have imported it by name
        yield


def _suppressed(boxes: Any, scores: Any, idxs: Any, iou_threshold: float) -> Any:
    """Move the boxes of each class apart, as torchvision does for few; the end of no boxes is none."""
    ends = torch.cat([boxes.reshape(-1), boxes.new_full((1,), -float("inf"))])
    offsets = idxs.to(boxes) * (ends.max() + torch.tensor(1).to(boxes))
    return torch.ops.torchvision.nms(boxes + offsets[:, None], scores, iou_threshold)


def _pasted(masks: Any, boxes: Any, img_shape: tuple[int, int], padding: int = 1) -> Any:
    """Resize masks to their boxes and paste them into images, as products with shares of rows and columns."""
    masks, scale = expand_masks(masks, padding=padding)  # noqa: F821
    boxes = expand_boxes(boxes, scale).to(dtype=torch.int64)  # noqa: F821
    shares = []
    for axis, size, cells in ((1, img_shape[0], masks.shape[2]), (0, img_shape[1], masks.shape[3])):
        first = boxes[:, axis, None]
        extent = boxes[:, axis + 2, None] - first + 1
        at = torch.arange(size)[None] - first
        place = ((at + 0.5) * (cells / extent.clamp(min=1)) - 0.5).clamp(0, cells - 1)
        near = (1 - (place[:, :, None] - torch.arange(cells)).abs()).clamp(min=0)
        shares.append(torch.where(((at >= 0) & (at < extent))[:, :, None], near, 0.0))
    return (shares[0] @ masks[:, 0] @ shares[1].mT)[:, None]


_TOGETHER: dict[tuple[str, str], Callable[..., Any]] = {
    ("torchvision.ops.boxes", "batched_nms"): _suppressed,
    ("torchvision.models.detection.roi_heads", "paste_masks_in_image"): _pasted,
}
"""Module and name of a function -> its code for a trace, which runs with the global names of that module."""
