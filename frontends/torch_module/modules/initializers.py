"""Initial distributions of the parameters of torch's own layers, as their `reset_parameters` draw them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from math import prod, sqrt
from typing import TYPE_CHECKING, Any

from ....ir import Initializer
from ...infer_initializers import SAMPLE, Held, drawn, infer_laws
from ..export.tensors import array_of

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor
    from torch.nn import Module

Rule = Callable[[Any, str], "Initializer | None"]
ZEROS, ONES = Initializer.of("zeros"), Initializer.of("ones")


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
        rule = _rule_of(module)
        for name, tensor in [*module._parameters.items(), *module._buffers.items()]:
            if (
                tensor is None
                or id(tensor) in held
                or id(tensor) in known
                or isinstance(tensor, UninitializedTensorMixin)
            ):
                continue
            if rule is None and name in module._buffers:
                continue  # computed by the model, not drawn
            law = None if rule is None else rule(module, name)
            kind = (type(module).__name__ if rule is None else rule, name, tensor.dim())
            held[id(tensor)] = Held(tuple(tensor.shape), partial(_values, tensor), law, kind)
    return {**dict(zip(held, infer_laws(list(held.values())), strict=True)), **known}


def _values(tensor: Tensor) -> np.ndarray | None:
    """Its first values; None where it has none, or they are no floats."""
    if tensor.device.type == "meta" or not tensor.is_floating_point():
        return None
    if tensor.dim() == 2:
        return drawn(array_of(tensor.detach()[: -(-SAMPLE // max(tensor.shape[1], 1))]))[:SAMPLE]
    return array_of(tensor.detach().flatten()[:SAMPLE])


def _rule_of(module: Module) -> Rule | None:
    """The rule of a layer of torch's own, or of a subclass that initialises as it does."""
    found = _home_class(module, "__init__")
    return None if found is None else RULES.get(found.__name__)


def is_torchs(module: Module) -> bool:
    """Whether a layer is torch's own, or of a subclass that keeps how it resets its parameters."""
    found = _home_class(module)
    return found is not None and found.__name__ in RULES


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


def _uniform(bound: float) -> Initializer:
    return Initializer.of("uniform", low=-bound, high=bound)


def _weighted(module: Any, name: str) -> Initializer | None:
    """Convolutions and linear layers: kaiming_uniform_(a=sqrt(5)), and the bias by the weight's fan-in."""
    weight = module.weight
    fan_in = weight.shape[1] * prod(weight.shape[2:])
    if name == "weight":
        return Initializer.of("he_uniform", a=sqrt(5), mode="fan_in")
    return _uniform(1 / sqrt(fan_in)) if name == "bias" and fan_in else None


def _bilinear(module: Any, name: str) -> Initializer | None:
    return _uniform(1 / sqrt(module.weight.shape[1])) if name in ("weight", "bias") else None


def _norm(_module: Any, name: str) -> Initializer | None:
    return {
        "weight": ONES,
        "bias": ZEROS,
        "running_mean": ZEROS,
        "running_var": ONES,
        "num_batches_tracked": ZEROS,
    }.get(name)


def _embedding(_module: Any, name: str) -> Initializer | None:
    """Standard normal, but for the row of padding, which is zero in every framework's layer."""
    return Initializer.of("normal", mean=0.0, std=1.0) if name == "weight" else None


def _attention(_module: Any, name: str) -> Initializer | None:
    if name in ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight"):
        return Initializer.of("xavier_uniform", gain=1.0)
    if name == "in_proj_bias":
        return ZEROS
    return Initializer.of("xavier_normal", gain=1.0) if name in ("bias_k", "bias_v") else None


def _attention_output(module: Any, name: str) -> Initializer | None:
    """The output projection of an attention: a linear layer whose bias starts at zero."""
    return ZEROS if name == "bias" else _weighted(module, name)


def _recurrent(module: Any, _name: str) -> Initializer | None:
    return _uniform(1 / sqrt(module.hidden_size)) if module.hidden_size > 0 else None


def _prelu(module: Any, name: str) -> Initializer | None:
    return Initializer.of("constant", value=float(module.init)) if name == "weight" else None


RULES: dict[str, Rule] = {
    **dict.fromkeys(
        (
            "Linear",
            "Conv1d",
            "Conv2d",
            "Conv3d",
            "ConvTranspose1d",
            "ConvTranspose2d",
            "ConvTranspose3d",
        ),
        _weighted,
    ),
    "NonDynamicallyQuantizableLinear": _attention_output,
    "Bilinear": _bilinear,
    **dict.fromkeys(
        (
            "BatchNorm1d",
            "BatchNorm2d",
            "BatchNorm3d",
            "SyncBatchNorm",
            "InstanceNorm1d",
            "InstanceNorm2d",
            "InstanceNorm3d",
            "LayerNorm",
            "GroupNorm",
            "RMSNorm",
        ),
        _norm,
    ),
    **dict.fromkeys(("Embedding", "EmbeddingBag"), _embedding),
    "MultiheadAttention": _attention,
    **dict.fromkeys(("RNN", "LSTM", "GRU", "RNNCell", "LSTMCell", "GRUCell"), _recurrent),
    "PReLU": _prelu,
}
"""Layer class -> its rule."""
