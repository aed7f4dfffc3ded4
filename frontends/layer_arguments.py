"""Translates the arguments of one framework's layers into those of another's layers."""

from __future__ import annotations

from collections.abc import Mapping
from math import isclose
from typing import Any

from ..frameworks import framework_of

Arguments = dict[str, Any]

ELSEWHERE = ("Conv", "MaxPool", "AvgPool", "LPPool", "Dropout", "Linear", "Dense", "Embedding", "Identity")
"""Prefixes of classes whose settings are read from operators, which state computed padding."""

SIZES = frozenset(
    {
        "kernel_size",
        "in_channels",
        "out_channels",
        "in_features",
        "out_features",
        "num_embeddings",
        "embedding_dim",
        "vocab_size",
        "embedding_size",
    }
)
"""Arguments of these that the shapes of their parameters follow from, whatever else they have."""

_NEVER = frozenset({"self", "name", "dtype", "device", "inplace", "size_average", "reduce"})

_COUNTED_OTHERWISE = ("BatchNorm", "InstanceNorm", "SyncBatchNorm")
"""Prefixes of classes whose momentum is the share of the old statistics in one framework, of the new in the
other; it acts only in training, and is a setting of their operator."""


def class_like(class_name: str, framework: str, other: str) -> str:
    """Return the name that a layer's class has in another framework."""
    if framework == other:
        return class_name
    layer = framework_of(framework).layers.get(class_name)
    like = class_name if layer is None else layer.like or class_name
    return framework_of(other).likes.get(like, like)


def arguments_like(
    class_name: str, given: Mapping[str, Any], framework: str, other: str, rank: int | None = None
) -> Arguments:
    """Return what a layer's arguments are in another framework's layer of the same kind.

    Args:
        class_name: the layer's class.
        given: its constructor's arguments, defaults included.
        framework: the layer's, "torch" or "mindspore".
        other: the framework to say them in.
        rank: of the layer's input, where it is known.

    Example:
        >>> arguments_like("LeakyReLU", {"negative_slope": 0.01, "inplace": False}, "torch", "mindspore")
        {'alpha': 0.01}
        >>> arguments_like("LRN", {"depth_radius": 2, "alpha": 1.0}, "mindspore", "torch")
        {'size': 5, 'alpha': 5.0}
    """
    found = {
        name: value
        for name, value in given.items()
        if name not in _NEVER and not name.endswith("_init") and value is not None
    }
    if framework == other:
        return found
    if class_name.startswith(_COUNTED_OTHERWISE):
        found.pop("momentum", None)
    if class_name in ("LocalResponseNorm", "LRN"):
        return _of_responses(found, framework)
    mine, theirs = framework_of(framework), framework_of(other)
    like = class_like(class_name, framework, other)
    made = {theirs.keyword(like, mine.setting(class_name, name)): value for name, value in found.items()}
    return made | _further(class_name, found, rank) if framework == "torch" else made


def _of_responses(given: Arguments, framework: str) -> Arguments:
    """Return local response normalisation: torch counts all channels and divides alpha by their number."""
    if framework == "torch":
        size = given["size"]
        made = {"depth_radius": size // 2, "bias": given.get("k"), "alpha": given.get("alpha", 0) / size}
        return {**made, "beta": given.get("beta")} if size % 2 else {}
    size = 2 * given["depth_radius"] + 1
    made = {"size": size, "k": given.get("bias"), "alpha": given.get("alpha", 0) * size}
    return {name: value for name, value in (made | {"beta": given.get("beta")}).items() if value is not None}


def _further(class_name: str, given: Arguments, rank: int | None) -> Arguments:
    """Return arguments that MindSpore's layer needs besides for what torch's does by itself."""
    if class_name == "LayerNorm" and rank is not None:
        shape = given.get("normalized_shape")
        begin = rank - (1 if isinstance(shape, int) else len(shape or ()))
        return {"begin_norm_axis": begin, "begin_params_axis": begin}
    if class_name.startswith("InstanceNorm") and "num_features" in given:  # GroupNorm of one channel a group
        return dict.fromkeys(("num_groups", "num_channels"), given["num_features"])
    if class_name == "GELU":
        return {"approximate": given.get("approximate") == "tanh"}
    if class_name.startswith(("MaxPool", "AvgPool")):  # by other modes it works its padding out itself
        padding = given.get("padding", 0)
        is_padded = any(padding) if isinstance(padding, (tuple, list)) else bool(padding)
        return {"pad_mode": "pad"} if is_padded or given.get("ceil_mode") else {}
    if class_name.startswith("BatchNorm") and given.get("track_running_stats") is False:
        return {"use_batch_statistics": True}
    if class_name == "Upsample" and given.get("mode") in ("linear", "bilinear", "bicubic", "trilinear"):
        return {"recompute_scale_factor": True} if "scale_factor" in given else {}
    return {}


def is_same_argument(a: Any, b: Any) -> bool:
    """Whether two values of an argument are one: ``2`` is ``(2, 2)`` of a window."""
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return isclose(a, b, rel_tol=1e-6, abs_tol=1e-12)
    if isinstance(a, (tuple, list)) or isinstance(b, (tuple, list)):
        size = max(len(v) for v in (a, b) if isinstance(v, (tuple, list)))
        one, two = (list(v) if isinstance(v, (tuple, list)) else [v] * size for v in (a, b))
        return len(one) == len(two) and all(map(is_same_argument, one, two))
    return type(a) is type(b) and bool(a == b)
