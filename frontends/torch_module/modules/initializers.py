"""Initial distributions of the parameters of torch's own layers, as their `reset_parameters` draw them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from ....frameworks.record import Layer
from ....frameworks.torch import TORCH
from ....ir import Initializer
from ...infer_initializers import SAMPLE, Held, drawn, infer_laws
from ..export.tensors import array_of

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor
    from torch.nn import Module

DRAWN = frozenset(name for name, layer in TORCH.layers.items() if layer.states)
"""Torch's layers that have parameters."""


def initial_laws(
    root: Module, seen: Mapping[int, Initializer] | None = None
) -> dict[int, Initializer | None]:
    """``id(tensor)`` -> the law of every parameter and buffer below `root`: its class's, or what it shows.

    Args:
        root: the model.
        seen: what watching its construction told (`construction`), which needs no telling.
    """
    from torch.nn.parameter import UninitializedTensorMixin  # type: ignore[attr-defined]

    known = seen or {}
    held: dict[int, Held] = {}
    for module in root.modules():
        layer = _layer_of(module)
        for name, tensor in [*module._parameters.items(), *module._buffers.items()]:
            if (
                tensor is None
                or id(tensor) in held
                or id(tensor) in known
                or isinstance(tensor, UninitializedTensorMixin)
            ):
                continue
            own = layer or _layer_of_statistic(module, name)
            if own is None and name in module._buffers:
                continue  # computed by the model, not drawn
            law = None if own is None else _stated(module, own, name, tensor)
            kind = (type(module).__name__ if layer is None else layer.states, name, tensor.dim())
            held[id(tensor)] = Held(tuple(tensor.shape), partial(_values, tensor), law, kind)
    return {**dict(zip(held, infer_laws(list(held.values())), strict=True)), **known}


def _values(tensor: Tensor) -> np.ndarray | None:
    """Return its first values; None if it has none, or they are not floats."""
    if tensor.device.type == "meta" or not tensor.is_floating_point():
        return None
    if tensor.dim() == 2:
        return drawn(array_of(tensor.detach()[: -(-SAMPLE // max(tensor.shape[1], 1))]))[:SAMPLE]
    return array_of(tensor.detach().flatten()[:SAMPLE])


def _layer_of(module: Module) -> Layer | None:
    """Return the record of a layer of torch's own, or of a subclass that initialises as it does."""
    found = _home_class(module, "__init__")
    return None if found is None or found.__name__ not in DRAWN else TORCH.layers[found.__name__]


def _layer_of_statistic(module: Module, name: str) -> Layer | None:
    """Return a record for a running statistic of a subclass of BatchNorm, which torch resets; else None."""
    from torch.nn.modules.batchnorm import _NormBase

    is_statistic = name in ("running_mean", "running_var", "num_batches_tracked")
    return TORCH.layers["BatchNorm2d"] if is_statistic and isinstance(module, _NormBase) else None


def _stated(module: Module, layer: Layer, name: str, tensor: Tensor) -> Initializer | None:
    """Return the law of a tensor of a layer: a number that the constructor was given, else the default."""
    state = TORCH.state(layer.name, name)
    value = getattr(module, state.number, None) if state is not None and state.number else None
    if isinstance(value, (int, float)):
        return Initializer.of("constant", value=float(value))
    from torch.nn.parameter import is_lazy

    weight = getattr(module, "weight", None)
    return TORCH.default_law(
        layer.name,
        name,
        tuple(tensor.shape),
        None if weight is None or is_lazy(weight) else tuple(weight.shape),
    )


def is_torchs(module: Module) -> bool:
    """Whether a layer is torch's own, or of a subclass that keeps how it resets its parameters."""
    found = _home_class(module)
    return found is not None and found.__name__ in DRAWN


def _home_class(module: Module, *others: str) -> type | None:
    """Torch's own class that a module's class derives from; None where one resets its parameters."""
    for cls in type(module).__mro__:
        if is_home(cls.__module__):
            return cls
        if any(name in vars(cls) for name in ("reset_parameters", "_reset_parameters", *others)):
            return None
    return None


def is_home(name: str) -> bool:
    """Whether a Python module holds torch's own layers."""
    return name.partition(".")[0] == "torch" and name.startswith("torch.nn.modules")
