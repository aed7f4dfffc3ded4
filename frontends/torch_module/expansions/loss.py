"""Losses that torch computes in kernels of their own.

Torch's alone: none of the losses that the other frontends read is one of these. Torch's own end in kernels
where nothing else is said.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from .table import Expansions, Inexpressible

table = Expansions()


def _padded_targets(targets: Tensor, lengths: Sequence[int] | Tensor, batch: int) -> Tensor:
    """Concatenated targets as one row each."""
    if targets.dim() == 2:
        return targets
    if isinstance(lengths, Tensor):
        start = (torch.cumsum(lengths, 0) - lengths).reshape(-1, 1)
        at = torch.clamp(start + torch.arange(targets.shape[0]), max=targets.shape[0] - 1)
        return targets[at]
    longest, starts, at = max(max(lengths), 1), [], 0
    for length in lengths:
        starts.append(at)
        at += length
    last = max(targets.shape[0] - 1, 0)
    rows = [targets[torch.clamp(torch.arange(longest) + start, max=last)] for start in starts]
    return torch.stack(rows) if batch > 1 else rows[0].unsqueeze(0)


def _as_tensor(lengths: Sequence[int] | Tensor) -> Tensor:
    if isinstance(lengths, Tensor):
        return lengths.to(torch.int64)
    return torch.cat([torch.full((1,), n, dtype=torch.int64) for n in lengths])


def ctc_alphas(
    log_probs: Tensor, labels: Tensor, input_lengths: Tensor, target_lengths: Tensor, blank: int
) -> Tensor:
    """The negative log likelihood of each sequence: the forward recursion, a step for each frame."""
    steps, batch, _ = log_probs.shape
    if not isinstance(steps, int):
        raise Inexpressible("the number of its frames is symbolic: the recursion is unrolled")
    longest = labels.shape[1]
    blanks = torch.full_like(labels, blank)
    extended = torch.stack([blanks, labels], -1).reshape(batch, 2 * longest)
    extended = torch.cat([extended, extended[:, :1] * 0 + blank], 1)  # blank a blank b blank
    places = torch.arange(2 * longest + 1)
    emitted = log_probs.gather(2, extended.unsqueeze(0).expand(steps, batch, 2 * longest + 1))
    lowest = -1e30
    beyond = places.unsqueeze(0) > 2 * target_lengths.unsqueeze(1)
    before = functional.pad(extended, (2, 0), value=-1)[:, :-2]
    skips = (extended != blank) & (extended != before) & (places >= 2)
    alpha = torch.where(places < 2, emitted[0], lowest)
    alpha = torch.where(beyond, lowest, alpha)
    for t in range(1, steps):
        one = functional.pad(alpha, (1, 0), value=lowest)[:, :-1]
        two = torch.where(skips, functional.pad(alpha, (2, 0), value=lowest)[:, :-2], lowest)
        best = torch.maximum(torch.maximum(alpha, one), two)
        total = torch.exp(alpha - best) + torch.exp(one - best) + torch.exp(two - best)
        following = torch.where(beyond, lowest, best + torch.log(total) + emitted[t])
        following = torch.clamp(following, min=lowest)
        alpha = torch.where((t < input_lengths).unsqueeze(1), following, alpha)
    last = (2 * target_lengths).unsqueeze(1)
    end = alpha.gather(1, last).squeeze(1)
    previous = alpha.gather(1, torch.clamp(last - 1, min=0)).squeeze(1)
    previous = torch.where(target_lengths > 0, previous, lowest)
    best = torch.maximum(end, previous)
    found = -(best + torch.log(torch.exp(end - best) + torch.exp(previous - best)))
    return torch.where(found > 1e29, math.inf, found)


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Sequence[int] | Tensor,
    target_lengths: Sequence[int] | Tensor,
    blank: int = 0,
    reduction: int = 1,
    zero_infinity: bool = False,
) -> Tensor:
    """Connectionist temporal classification, as torch.ctc_loss has it.

    Args:
        log_probs: (T, N, C) or (T, C).
        targets: (N, S), or all concatenated.
        input_lengths: N numbers of frames.
        target_lengths: N numbers of labels.
        blank: the label that stands for none.
        reduction: 0 none, 1 mean (of losses over target lengths), 2 sum.
        zero_infinity: whether impossible alignments count as 0.
    """
    single = log_probs.dim() == 2
    if single:
        log_probs = log_probs.unsqueeze(1)
        targets = targets.reshape(1, -1)
    labels = _padded_targets(targets, target_lengths, log_probs.shape[1]).to(torch.int64)
    lengths = _as_tensor(target_lengths).reshape(-1)
    found = ctc_alphas(log_probs, labels, _as_tensor(input_lengths).reshape(-1), lengths, blank)
    if zero_infinity:
        found = torch.where(torch.isinf(found), 0.0, found)
    if reduction == 1:
        return (found / torch.clamp(lengths, min=1).to(found.dtype)).mean()
    if reduction == 2:
        return found.sum()
    return found.squeeze(0) if single else found


@table.of("aten.multi_margin_loss.default")
def multi_margin_loss(
    x: Tensor,
    target: Tensor,
    p: float = 1,
    margin: float = 1,
    weight: Tensor | None = None,
    reduction: int = 1,
) -> Tensor:
    """How far every other class comes within the margin of the wanted one, (rows, classes) or (classes).

    Torch's own decomposition (2.13) gives a vector's loss an axis that its kernel does not give it.
    """
    rows, wanted = x.reshape(-1, x.shape[-1]), target.reshape(-1, 1)
    below = torch.clamp(margin - rows.gather(1, wanted) + rows, min=0) ** p
    if weight is not None:
        below = below * weight[wanted]
    own = torch.arange(x.shape[-1]) == wanted
    found = (torch.where(own, 0.0, below).sum(1) / x.shape[-1]).reshape(target.shape)
    return [lambda f: f, torch.mean, torch.sum][reduction](found)


@table.of("aten.multilabel_margin_loss_forward.default")
def multilabel_margin_loss(x: Tensor, target: Tensor, reduction: int) -> tuple[Tensor, Tensor]:
    """Margins of every class that is no target to every one that is, up to the first target below 0.

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


REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}
"""torch's numbers for them."""


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


@table.of("torch_nn._linear_cross_entropy_batch_chunked.default")
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
    """The loss; what torch computes beforehand for gradients is empty."""
    found = _linear_cross_entropy(
        x, linear_weight, target, linear_bias, weight, reduction, ignore_index, label_smoothing
    )
    return found, found, found, found


@table.of("torch_nn._linear_cross_entropy_batch_chunked_no_reduction.default")
def linear_cross_entropy_no_reduction(
    x: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    linear_bias: Tensor | None,
    weight: Tensor | None,
    ignore_index: int,
    *_chunks: object,
) -> Tensor:
    """The losses one by one."""
    return _linear_cross_entropy(x, linear_weight, target, linear_bias, weight, "none", ignore_index, 0.0)
