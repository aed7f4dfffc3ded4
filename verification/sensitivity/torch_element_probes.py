"""Computes a few elements of a table, linear or convolution layer: enough to see that a change moves them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...frontends.torch_module.export.tensors import array_of, tensor_of
from ..runners.runs import CallRecord, Changing, ElementProbe

_ROWS, _CHANNELS, _FEATURES = 64, 8, 64
"""Rows of a matrix, channels of an image and features of a row that are looked at, at most."""

_Part = Callable[[Any, Any], Any]
"""Computes some of what a layer gives from as much of its weight and bias."""


def probe_elements(module: Any, tensor: Any, record: CallRecord, change: Changing) -> ElementProbe | None:
    """Return some elements of a layer's result, and with one parameter changed; None for other modules.

    Args:
        module: the module that was called.
        tensor: its weight or its bias.
        record: the call; one tensor enters and one leaves it.
        change: as in `ElementProber`.
    """
    import torch

    if len(record.inputs) != 1 or len(record.outputs) != 1 or module._forward_pre_hooks:
        return None
    own = module._parameters.get("weight"), module._parameters.get("bias")
    if tensor is None or own[0] is None or not any(tensor is each for each in own):
        return None
    if any(type(each) is not torch.nn.Parameter or each.is_meta for each in own if each is not None):
        return None
    found = _of_embedding(module, record) or _of_linear(module, record) or _of_convolution(module, record)
    if found is None:
        return None
    part, expected, features = found
    computed = tensor_of(expected[:0]).dtype  # wider than the weights where they are widened when used
    weight, bias = (None if each is None else each.detach()[features].to(computed) for each in own)
    changed = change(array_of(tensor.detach()), features)
    if changed is None:
        return None
    other = tensor_of(changed).to(computed)
    before = part(weight, bias)
    after = part(other, bias) if tensor is own[0] else part(weight, other)
    return ElementProbe(expected, np.array(array_of(before)), np.array(array_of(after)))


def _of_embedding(module: Any, record: CallRecord) -> tuple[_Part, np.ndarray, np.ndarray] | None:
    """Return the part of a table that some indices read, what it gave for them, and its rows."""
    import torch

    indices, leaving = record.inputs[0].reshape(-1), record.outputs[0]
    plain = type(module) is torch.nn.Embedding and module.max_norm is None
    if not plain or not indices.size or leaving.size != indices.size * module.embedding_dim:
        return None
    rows, places = np.unique(indices[:_ROWS], return_inverse=True)
    part: _Part = lambda weight, _: weight[tensor_of(places)]  # noqa: E731
    return part, leaving.reshape(indices.size, -1)[:_ROWS], rows


def _of_linear(module: Any, record: CallRecord) -> tuple[_Part, np.ndarray, slice] | None:
    """Return the part of a linear layer, what it gave, and the features of which that is."""
    import torch

    entering, leaving = record.inputs[0], record.outputs[0]
    if type(module) is not torch.nn.Linear or not entering.size or not entering.ndim:
        return None
    if entering.dtype != leaving.dtype:
        return None
    given = entering.reshape(-1, entering.shape[-1])
    got = leaving.reshape(-1, leaving.shape[-1])
    if len(given) != len(got) or got.shape[1] != module.out_features:
        return None
    rows = slice(None, None, -(-len(given) // _ROWS))
    features = slice(None, None, -(-module.out_features // _FEATURES))
    some = tensor_of(given[rows])
    part: _Part = lambda weight, bias: torch.nn.functional.linear(some, weight, bias)  # noqa: E731
    return part, got[rows, features], features


def _of_convolution(module: Any, record: CallRecord) -> tuple[_Part, np.ndarray, slice] | None:
    """Return the first example and channels of a convolution, what it gave, and the channels."""
    import torch

    kinds = (torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Conv3d)
    entering, leaving = record.inputs[0], record.outputs[0]
    if type(module) not in kinds or module.padding_mode != "zeros" or not entering.size:
        return None
    if entering.ndim != module.weight.ndim or leaving.ndim != entering.ndim:
        return None
    if entering.dtype != leaving.dtype:
        return None
    leave, enter = module.out_channels // module.groups, module.in_channels // module.groups
    groups = min(module.groups, max(1, _CHANNELS // leave))
    count = groups * leave if groups > 1 else min(leave, _CHANNELS)
    some = tensor_of(entering[:1, : groups * enter])
    run = (torch.nn.functional.conv1d, torch.nn.functional.conv2d, torch.nn.functional.conv3d)[
        kinds.index(type(module))
    ]
    shape = (module.stride, module.padding, module.dilation, groups)
    part: _Part = lambda weight, bias: run(some, weight, bias, *shape)  # noqa: E731
    return part, leaving[:1, :count], slice(count)
