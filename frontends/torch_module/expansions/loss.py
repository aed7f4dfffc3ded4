"""Losses that torch computes in kernels of their own, but for ctc_loss, which is a composite.

Torch's alone: MXNet has none of these, MindSpore's `MultilabelMarginLoss` has no kernel for CPUs to compare
with, and the margins are 8 to 10 operators. Torch's own end in kernels where nothing else is said.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from .table import Expansions

table = Expansions()


@table.op("aten.multi_margin_loss.default")
def multi_margin_loss(
    x: Tensor,
    target: Tensor,
    p: float = 1,
    margin: float = 1,
    weight: Tensor | None = None,
    reduction: int = 1,
) -> Tensor:
    """Compute how far every other class comes within the margin of the wanted one.

    Torch's own decomposition (2.13) gives a vector's loss an axis that its kernel does not give it.
    """
    rows, wanted = x.reshape(-1, x.shape[-1]), target.reshape(-1, 1)
    below = torch.clamp(margin - rows.gather(1, wanted) + rows, min=0) ** p
    if weight is not None:
        below = below * weight[wanted]
    own = torch.arange(x.shape[-1]) == wanted
    found = (torch.where(own, 0.0, below).sum(1) / x.shape[-1]).reshape(target.shape)
    return [lambda f: f, torch.mean, torch.sum][reduction](found)


@table.op("aten.multilabel_margin_loss_forward.default")
def multilabel_margin_loss(x: Tensor, target: Tensor, reduction: int) -> tuple[Tensor, Tensor]:
    """Return margins of every class that is no target to every one that is, up to the first target below 0.

    torch's own decomposition (2.13) gives other numbers than its kernel where that target is not the last.
    """
    rows, labels = (t.reshape(1, -1) if t.dim() < 2 else t for t in (x, target))
    given = torch.cumsum((labels < 0).to(torch.int64), 1) == 0
    places = torch.arange(rows.shape[1])
    hit = given.unsqueeze(2) & (labels.unsqueeze(2) == places)  # (N, target, class)
    is_target = hit.any(1)
    wanted = rows.gather(1, torch.clamp(labels, min=0)).unsqueeze(2)
    margin = torch.clamp(1 - wanted + rows.unsqueeze(1), min=0)
    counted = given.unsqueeze(2) & ~is_target.unsqueeze(1)
    found = torch.where(counted, margin, 0.0).sum((1, 2)) / rows.shape[1]
    marks = is_target.to(x.dtype).reshape(target.shape)
    if reduction == 0:
        return (found if x.dim() == 2 else found.squeeze(0)), marks
    return (found.mean() if reduction == 1 else found.sum()), marks


def _linear_cross_entropy(
    x: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    linear_bias: Tensor | None,
    weight: Tensor | None,
    reduction: str,
    ignore_index: int,
    label_smoothing: float,
) -> Tensor:
    logits = functional.linear(x, linear_weight, linear_bias)
    return functional.cross_entropy(
        logits,
        target,
        weight,
        ignore_index=ignore_index,
        reduction=reduction,
        label_smoothing=label_smoothing,
    )


@table.op("torch_nn._linear_cross_entropy_batch_chunked.default")
def linear_cross_entropy(
    x: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    linear_bias: Tensor | None,
    weight: Tensor | None,
    reduction: str,
    ignore_index: int,
    label_smoothing: float,
    *_gradients: object,
) -> tuple[Tensor, ...]:
    """Return the loss; what torch computes beforehand for gradients is empty."""
    found = _linear_cross_entropy(
        x, linear_weight, target, linear_bias, weight, reduction, ignore_index, label_smoothing
    )
    return found, found, found, found


@table.op("torch_nn._linear_cross_entropy_batch_chunked_no_reduction.default")
def linear_cross_entropy_no_reduction(
    x: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    linear_bias: Tensor | None,
    weight: Tensor | None,
    ignore_index: int,
    *_chunks: object,
) -> Tensor:
    """Return the losses one by one."""
    return _linear_cross_entropy(x, linear_weight, target, linear_bias, weight, "none", ignore_index, 0.0)
