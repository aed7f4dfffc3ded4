"""Shapes of parameters as MXNet infers them: from a layer's attributes and the shape of its data."""

from __future__ import annotations

from collections.abc import Callable

from ...ir import Dim
from ...ir.dims import product
from .attributes import TextAttributes

Shape = tuple[Dim, ...]
Rule = Callable[[TextAttributes, Shape], dict[str, Shape]]
"""(attributes, shape of the data) -> parameter name -> shape; an unknown dimension is None."""


def parameter_shapes(op: str, attributes: TextAttributes, data: Shape) -> dict[str, Shape]:
    """Return the shapes that an operator's parameters must have; empty where there is no rule."""
    return _RULES[op](attributes, data) if op in _RULES else {}


def _quotient(size: Dim, groups: int) -> Dim:
    return size // groups if isinstance(size, int) and groups > 0 and size % groups == 0 else None


def _at(data: Shape, axis: int) -> Dim:
    return data[axis] if -len(data) <= axis < len(data) else None


def _convolution(attrs: TextAttributes, data: Shape) -> dict[str, Shape]:
    filters, groups = attrs.int("num_filter"), attrs.int("num_group", 1)
    return {
        "weight": (filters, _quotient(_at(data, 1), groups), *attrs.ints("kernel")),
        "bias": (filters,),
    }


def _deconvolution(attrs: TextAttributes, data: Shape) -> dict[str, Shape]:
    filters, groups = attrs.int("num_filter"), attrs.int("num_group", 1)
    return {
        "weight": (_at(data, 1), _quotient(filters, groups), *attrs.ints("kernel")),
        "bias": (filters,),
    }


def _upsampling(attrs: TextAttributes, data: Shape) -> dict[str, Shape]:
    size = 2 * attrs.int("scale") - attrs.int("scale") % 2
    return {"weight": (_at(data, 1), 1, size, size)}


def _fully_connected(attrs: TextAttributes, data: Shape) -> dict[str, Shape]:
    hidden = attrs.int("num_hidden")
    size = product(data[1:]) if attrs.flag("flatten", default=True) else _at(data, -1)
    return {"weight": (hidden, size), "bias": (hidden,)}


def _embedding(attrs: TextAttributes, _data: Shape) -> dict[str, Shape]:
    return {"weight": (attrs.int("input_dim"), attrs.int("output_dim"))}


def _per_channel(axis: int) -> Rule:
    def rule(attrs: TextAttributes, data: Shape) -> dict[str, Shape]:
        size = (_at(data, attrs.int("axis", axis)),)
        return dict.fromkeys(("gamma", "beta", "moving_mean", "moving_var"), size)

    return rule


def _instance_norm(_attrs: TextAttributes, data: Shape) -> dict[str, Shape]:
    return {"gamma": (_at(data, 1),), "beta": (_at(data, 1),)}


def _group_norm(attrs: TextAttributes, _data: Shape) -> dict[str, Shape]:
    return dict.fromkeys(("gamma", "beta"), (attrs.int("num_groups", 1),))


def _moving_average(_attrs: TextAttributes, data: Shape) -> dict[str, Shape]:
    return {"moving_avg": (_at(data, 1),)}


def _slopes(_attrs: TextAttributes, data: Shape) -> dict[str, Shape]:
    return {"gamma": (_at(data, 1),)}


_GATES = {"lstm": 4, "gru": 3}


def _recurrent(attrs: TextAttributes, data: Shape) -> dict[str, Shape]:
    """One vector: of each layer and direction the weights of the input and of the state, and two biases."""
    hidden, layers, width = attrs.int("state_size"), attrs.int("num_layers"), _at(data, -1)
    directions = 2 if attrs.flag("bidirectional") else 1
    rows = directions * _GATES.get(attrs.text("mode"), 1) * hidden
    if not isinstance(width, int):
        return {"parameters": (None,)}
    columns = width + hidden + 2 + (layers - 1) * (directions * hidden + hidden + 2)
    return {"parameters": (rows * columns,)}


_RULES: dict[str, Rule] = {
    "Convolution": _convolution,
    "Convolution_v1": _convolution,
    "Deconvolution": _deconvolution,
    "_contrib_DeformableConvolution": _convolution,
    "_contrib_ModulatedDeformableConvolution": _convolution,
    "UpSampling": _upsampling,
    "IdentityAttachKLSparseReg": _moving_average,
    "FullyConnected": _fully_connected,
    "Embedding": _embedding,
    "BatchNorm": _per_channel(1),
    "BatchNorm_v1": _per_channel(1),
    "_contrib_SyncBatchNorm": _per_channel(1),
    "LayerNorm": _per_channel(-1),
    "InstanceNorm": _instance_norm,
    "GroupNorm": _group_norm,
    "LeakyReLU": _slopes,
    "RNN": _recurrent,
}
