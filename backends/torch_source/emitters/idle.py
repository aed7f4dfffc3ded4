"""Layers that never run: constructed for the parameters that checkpoints have of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ....frameworks.record import same
from ....frameworks.torch import TORCH
from ....ir import Module, Parameter
from ...source.emitting import Argument, optional
from ...source.expressions import Call, NnClass, Part, as_part
from .initializers import dtype_argument

Shapes = dict[str, tuple[int, ...]]
Given = Mapping[str, Any]
"""Keyword of a constructor -> what the source's layer was given."""


def idle_layer(module: Module, held: Mapping[str, Parameter]) -> Part | None:
    """Return the constructor of a layer of torch, by the source's arguments; None for other classes."""
    record, shapes_of = TORCH.layers.get(module.class_name), _SHAPES.get(module.class_name)
    floats = [p for p in held.values() if p.data.dtype != "int64"]
    if record is None or shapes_of is None or len({p.data.dtype for p in floats}) != 1:
        return None
    given = {"bias": "bias" in held, **module.arguments}
    if any(default is ... and keyword not in given for keyword, default in record.defaults.items()):
        return None
    if shapes_of(given) != {name: tuple(p.data.shape) for name, p in held.items()}:
        return None
    arguments = [
        Argument("", as_part(_short(given[keyword]), keyword))
        if default is ...
        else optional(keyword, _short(given[keyword]), default)
        for keyword, default in record.defaults.items()
        if keyword in given
    ]
    return Call(NnClass(module.class_name), (*arguments, *dtype_argument(floats[0])))


def _short(value: object) -> object:
    return same(value) if isinstance(value, tuple) else value


def _dense(given: Given) -> Shapes:
    return _biased((given["out_features"], given["in_features"]), given["out_features"], given)


def _convolution(given: Given) -> Shapes:
    sizes = given["out_channels"], given["in_channels"] // given["groups"], *given["kernel_size"]
    return _biased(sizes, given["out_channels"], given)


def _transposed(given: Given) -> Shapes:
    sizes = given["in_channels"], given["out_channels"] // given["groups"], *given["kernel_size"]
    return _biased(sizes, given["out_channels"], given)


def _biased(weight: tuple[int, ...], size: int, given: Given) -> Shapes:
    return {"weight": weight, **({"bias": (size,)} if given["bias"] else {})}


def _table(given: Given) -> Shapes:
    return {"weight": (given["num_embeddings"], given["embedding_dim"])}


def _channels(keyword: str) -> Callable[[Given], Shapes]:
    def shapes(given: Given) -> Shapes:
        size = (given[keyword],)
        found: Shapes = {"weight": size, "bias": size} if given["affine"] else {}
        if given.get("track_running_stats"):
            found |= {"running_mean": size, "running_var": size, "num_batches_tracked": ()}
        return found

    return shapes


def _last_axes(given: Given) -> Shapes:
    shape = tuple(given["normalized_shape"])
    return {"weight": shape, **({"bias": shape} if given["bias"] else {})}


_SHAPES: dict[str, Callable[[Given], Shapes]] = {
    "Linear": _dense,
    **{f"Conv{n}d": _convolution for n in (1, 2, 3)},
    **{f"ConvTranspose{n}d": _transposed for n in (1, 2, 3)},
    "Embedding": _table,
    **{f"{kind}Norm{n}d": _channels("num_features") for kind in ("Batch", "Instance") for n in (1, 2, 3)},
    "GroupNorm": _channels("num_channels"),
    "LayerNorm": _last_axes,
    "RMSNorm": _last_axes,
    "PReLU": lambda given: {"weight": (given["num_parameters"],)},
}
"""Class -> the shapes of all that its layer holds, by its arguments."""
