"""Describes transforms of torchvision and of MindSpore in one vocabulary, and records what they give."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, cast

import numpy as np

KINDS: dict[str, str] = {
    "Decode": "decode",
    "Resize": "resize",
    "CenterCrop": "crop",
    "Crop": "crop",
    "RandomCrop": "random crop",
    "RandomResizedCrop": "random resized crop",
    "Pad": "pad",
    "HorizontalFlip": "flip",
    "VerticalFlip": "flip",
    "RandomHorizontalFlip": "random flip",
    "RandomVerticalFlip": "random vertical flip",
    "ToTensor": "tensor",
    "PILToTensor": "layout",
    "ToImage": "layout",
    "ToPureTensor": "type",
    "HWC2CHW": "layout",
    "ToPIL": "type",
    "ToPILImage": "type",
    "ConvertImageDtype": "scale",
    "ToDtype": "scale",
    "Rescale": "scale",
    "Normalize": "normalise",
    "TypeCast": "type",
    "ToType": "type",
    "Grayscale": "grey",
    "Rgb2Gray": "grey",
    "ConvertColor": "colour",
    "ColorJitter": "random colour",
    "RandomColorAdjust": "random colour",
    "RandomRotation": "random rotation",
    "RandomErasing": "random erasing",
}
"""Class of a transform -> the kind of step that it is; the frameworks share most names."""

UNKNOWN = "unknown"
"""The kind of all other transforms, which are judged by what they give."""

VALUES = {"tensor", "scale", "normalise", "type", "layout"}
"""Kinds that change numbers or their layout, and not which pixels an image has."""

_RANDOM = {
    "ColorJitter", "AutoAugment", "RandAugment", "TrivialAugmentWide", "AugMix", "MixUp", "CutMix",
    "GaussianBlur",
}  # fmt: skip

_SPELLED = {
    "py_size": "size",
    "prob": "probability",
    "p": "probability",
    "fill_value": "fill",
    "rescale": "scale",
    "convert_mode": "mode",
    "lambd": "function",
}
_LEFT_OUT = {
    "training", "inplace", "transforms", "output_type", "implementation", "device_target", "random", "c_size",
    "is_hwc", "max_attempts", "random_", "call_function",
}  # fmt: skip
_INTERPOLATIONS = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic", 4: "box", 5: "hamming"}
"""PIL's numbers."""


@dataclass
class Stage:
    """One transform of a pipeline.

    Attributes:
        name: its class, or the name of a function.
        kind: a value of `KINDS`, or `UNKNOWN`.
        settings: name -> value, in one spelling for both frameworks.
        random: whether two runs of it differ; it was replaced by its middle for the comparison of values.
        given: what it was given: "PIL", "tensor", "array" or "bytes".
        line: its line in the user's file; 0 for unknown.
        values: what it gave for the first samples.
    """

    name: str
    kind: str
    settings: dict[str, Any] = field(default_factory=dict[str, Any])
    random: bool = False
    given: str = ""
    line: int = 0
    values: list[np.ndarray] = field(default_factory=list[np.ndarray])

    @property
    def antialias(self) -> bool:
        """Whether a resize averages over the pixels that one of its result covers; PIL's always does."""
        return self.given == "PIL" or (self.given == "tensor" and self.settings.get("antialias") is not False)


LINES: dict[int, int] = {}
"""Identity of a transform -> the line of the user's file that makes it."""

RECORDED: dict[int, Stage] = {}
"""Number of a tap -> its stage; outside of the taps, which frameworks copy."""


class Tap:
    """Runs a transform and records what it gives for the first samples.

    Args:
        transform: the transform.
        samples: number of samples of which results are kept.
    """

    def __init__(self, transform: Callable[..., Any], samples: int) -> None:
        self.number, self.samples = len(RECORDED), samples
        RECORDED[self.number] = describe(transform)
        RECORDED[self.number].line = LINES.get(id(transform), 0)
        self.transform = middle_of(transform) if RECORDED[self.number].random else transform

    def __call__(self, *given: Any) -> Any:
        """Return what the transform gives."""
        stage = RECORDED[self.number]
        result = given[0] if self.transform is None else self.transform(*given)
        stage.given = stage.given or kind_of(given[0])
        if len(stage.values) < self.samples:
            array = as_array(result)
            if array is not None:
                stage.values.append(array)
        return result


def describe(transform: Any) -> Stage:
    """Return the stage of a transform, without values."""
    function = not isinstance(transform, type) and hasattr(transform, "__qualname__")
    name = transform.__name__ if function else type(transform).__name__
    name = "a function" if name == "<lambda>" else name
    settings = {} if function else _settings(transform)
    stage = Stage(name, KINDS.get(name, UNKNOWN), settings)
    if function and hasattr(transform, "__code__"):
        LINES.setdefault(id(transform), transform.__code__.co_firstlineno)
    stage.random = name.startswith("Random") or name in _RANDOM
    if "axis" not in settings and name in ("HorizontalFlip", "VerticalFlip"):
        settings["axis"] = name[: name.index("Flip")].lower()
    return stage


def _settings(transform: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in vars(transform).items():
        if name.startswith("_") or name in _LEFT_OUT:
            continue
        spelled = str(_SPELLED.get(name, name))
        plain = _plain(spelled, value)
        if plain is not None:
            found[spelled] = plain
    return found


def _plain(name: str, value: Any) -> Any:
    """Return a setting as plain data in one spelling; None for what says nothing."""
    if isinstance(value, Enum):
        return value.name.lower()
    if name == "interpolation" and isinstance(value, int):
        return _INTERPOLATIONS.get(value, str(value))
    if isinstance(value, (bool, str)):
        return value
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return float(value)
    if isinstance(value, (list, tuple)):
        items = [_plain(name, v) for v in cast("Sequence[object]", value)]
        if any(v is None for v in items):
            return None
        if (
            name in ("size", "padding", "fill")
            and len(set(items)) == 1
            and (name != "size" or len(items) == 1)
        ):
            return items[0]
        return items
    if value is None or callable(value):
        return None
    text = str(value).removeprefix("torch.").removeprefix("mindspore.")
    return text.lower() if len(text) < 64 else None


def middle_of(transform: Any) -> Callable[..., Any] | None:
    """Return what a random transform does in the middle of its range; None for nothing.

    A random crop is the crop at the centre, a crop of random size the whole at the size that it gives.
    """
    import importlib

    name, settings = type(transform).__name__, vars(transform)
    module = type(transform).__module__
    home = module.rpartition(".")[0] if module.startswith("torchvision") else "mindspore.dataset.vision"
    if name not in ("RandomCrop", "RandomResizedCrop"):
        return None
    layers = importlib.import_module(home)
    size = settings["size"]
    if name == "RandomResizedCrop":
        options = {"interpolation": settings["interpolation"]}
        if "antialias" in settings:
            options["antialias"] = settings["antialias"]
        return layers.Resize(size, **options)
    crop, padding = layers.CenterCrop(size), settings.get("padding")
    if not padding or not np.any(padding):
        return crop
    pad = layers.Pad(padding, settings.get("fill", settings.get("fill_value", 0)))
    return lambda image: crop(pad(image))


def kind_of(value: Any) -> str:
    """Return "PIL", "tensor", "bytes" or "array"."""
    if hasattr(value, "getbands"):
        return "PIL"
    if type(value).__module__.split(".")[0] in ("torch", "torchvision"):
        return "tensor"
    if isinstance(value, bytes) or (isinstance(value, np.ndarray) and value.ndim == 1):
        return "bytes"
    return "array"


def as_array(value: Any) -> np.ndarray | None:
    """Return an array of what a pipeline gives; None for what is none."""
    if hasattr(value, "asnumpy"):
        value = value.asnumpy()
    elif hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    try:
        array = np.asarray(value)
    except (ValueError, TypeError):
        return None
    return array if array.dtype.kind in "biufUS" else None


def apart(first: Stage, second: Stage) -> dict[str, tuple[Any, Any]]:
    """Return the settings that two stages of one kind have differently, with the defaults of either."""
    one, two = dict(first.settings), dict(second.settings)
    if first.kind in ("resize", "random resized crop"):
        one["antialias"], two["antialias"] = first.antialias, second.antialias
        for settings in (one, two):
            settings.pop("max_size", None)
    shared: Mapping[str, Any] = {name: (one[name], two[name]) for name in one if name in two}
    return {name: pair for name, pair in shared.items() if not _same(name, *pair)}


def _same(name: str, one: Any, two: Any) -> bool:
    if isinstance(one, (int, float)) and isinstance(two, list):
        one, two = two, one
    if isinstance(one, list) and isinstance(two, (int, float)):
        return name != "size" and all(v == two for v in cast("list[Any]", one))
    try:
        return bool(np.allclose(np.asarray(one, float), np.asarray(two, float)))
    except (ValueError, TypeError):
        return str(one).lower() == str(two).lower()
