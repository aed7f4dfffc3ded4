"""Models of torchvision and timm by name, with fresh weights in evaluation mode: ``zoo.py:resnet50``."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

NAMES = {
    "resnet18": "torchvision",
    "resnet50": "torchvision",
    "densenet121": "torchvision",
    "efficientnet_b0": "torchvision",
    "regnet_y_400mf": "torchvision",
    "mobilenetv3_large_100": "timm",
    "convnext_tiny": "timm",
    "vit_small_patch16_224": "timm",
    "deit_tiny_patch16_224": "timm",
    "swin_tiny_patch4_window7_224": "timm",
    "mixer_b16_224": "timm",
}
"""Model -> the library whose it is; each takes images of 3 x 224 x 224."""

_OPERATORS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
"""Compiled operators that torchvision looks up on import, and none of these models calls."""

_DECLARED: list[Any] = []
"""Declarations of operators, which live as long as the process."""


def _factory(name: str, library: str) -> Callable[[], Any]:
    """Return a function that makes one model."""

    def make() -> Any:
        import torch

        torch.manual_seed(0)
        if library == "timm":
            if importlib.util.find_spec("torchvision"):
                _torchvision()  # which timm imports, too
            import timm  # type: ignore[import-not-found]

            return timm.create_model(name, pretrained=False).eval()
        return getattr(_torchvision().models, name)().eval()

    return make


def _torchvision() -> Any:
    """Import torchvision, also a build whose compiled operators are not for this torch."""
    try:
        import torchvision  # type: ignore[import-not-found]
    except RuntimeError:
        import torch

        library = torch.library.Library("torchvision", "DEF")
        for operator in _OPERATORS:
            library.define(operator)
        _DECLARED.append(library)
        import torchvision  # type: ignore[import-not-found]
    return torchvision


globals().update({name: _factory(name, library) for name, library in NAMES.items()})
