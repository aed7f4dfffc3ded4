"""Functions that torch.export refuses because their code looks at values, and what is traced instead."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


@contextmanager
def substituted() -> Iterator[None]:
    """Trace equivalents without value checks and kernels of unknown result shape.

    Only worth its cost where torch.export has refused a model: every call of torch's functions is looked up.
    """
    from torch.overrides import TorchFunctionMode

    table = _table()

    class Mode(TorchFunctionMode):
        def __torch_function__(
            self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
        ) -> Any:
            del types
            function = table.get(func) or func
            return function(*args, **(kwargs or {}))

    with Mode():
        yield


def _table() -> dict[Any, Callable[..., Any]]:
    import torch
    from torch.nn import functional

    data: Any = torch.Tensor.data
    return {
        functional.gaussian_nll_loss: _gaussian_nll_loss,
        functional.ctc_loss: _ctc_loss,
        torch.ctc_loss: _ctc_loss,
        torch.cov: _cov,
        torch.corrcoef: _corrcoef,
        torch.equal: _equal,
        torch.Tensor.equal: _equal,
        torch.allclose: _allclose,
        torch.Tensor.allclose: _allclose,
        **dict.fromkeys((torch.quantile, torch.Tensor.quantile, torch.ops.aten.quantile.default), _quantile),
        **dict.fromkeys(
            (torch.nanquantile, torch.Tensor.nanquantile, torch.ops.aten.nanquantile.default),
            partial(_quantile, ignore_nan=True),
        ),
        torch.bucketize: _bucketize,
        torch.ops.aten.bucketize.Scalar: _bucketize,
        data.__get__: torch.Tensor.detach,
    }


def _ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Sequence[int] | Tensor,
    target_lengths: Sequence[int] | Tensor,
    blank: int = 0,
    reduction: str | int = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """Torch's own with the losses of all sequences as one operator.

    Args:
        log_probs: (T, N, C) or (T, C).
        targets: (N, S), or all concatenated.
        input_lengths: N numbers of frames.
        target_lengths: N numbers of labels.
        blank: the label that stands for none.
        reduction: none or 0, mean or 1 (of losses over target lengths), sum or 2.
        zero_infinity: whether impossible alignments count as 0.
    """
    import torch

    single = log_probs.dim() == 2
    if single:
        log_probs, targets = log_probs.unsqueeze(1), targets.reshape(1, -1)
    labels = _padded_targets(targets, target_lengths, log_probs.shape[1]).to(torch.int64)
    lengths = _as_tensor(target_lengths).reshape(-1)
    frames = _as_tensor(input_lengths).reshape(-1)
    found = torch.ops.regraft.ctc_losses(log_probs, labels, frames, lengths, blank, zero_infinity)
    if reduction in ("mean", 1):
        return (found / torch.clamp(lengths, min=1).to(found.dtype)).mean()
    if reduction in ("sum", 2):
        return found.sum()
    return found.squeeze(0) if single else found


def _padded_targets(targets: Tensor, lengths: Sequence[int] | Tensor, batch: int) -> Tensor:
    """Concatenated targets as one row each."""
    import torch

    if targets.dim() == 2:
        return targets
    if isinstance(lengths, torch.Tensor):
        start = (torch.cumsum(lengths, 0) - lengths).reshape(-1, 1)
        at = torch.clamp(start + torch.arange(targets.shape[0]), max=targets.shape[0] - 1)
        return targets[at]
    longest, starts, at = max(*lengths, 1), [], 0
    for length in lengths:
        starts.append(at)
        at += length
    last = max(targets.shape[0] - 1, 0)
    rows = [targets[torch.clamp(torch.arange(longest) + start, max=last)] for start in starts]
    return torch.stack(rows) if batch > 1 else rows[0].unsqueeze(0)


def _as_tensor(lengths: Sequence[int] | Tensor) -> Tensor:
    import torch

    if isinstance(lengths, torch.Tensor):
        return lengths.to(torch.int64)
    return torch.cat([torch.full((1,), n, dtype=torch.int64) for n in lengths])


def _gaussian_nll_loss(
    input: Tensor,  # noqa: A002 - torch's name
    target: Tensor,
    var: Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """Torch's own without the check that no variance is negative: such a one counts as `eps`."""
    import math

    import torch

    variance = torch.full_like(input, var) if isinstance(var, (int, float)) else var
    if variance.shape != input.shape and variance.shape == input.shape[:-1]:
        variance = variance.unsqueeze(-1)
    variance = torch.clamp(variance, min=eps)
    loss = 0.5 * (torch.log(variance) + (input - target) ** 2 / variance)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return {"mean": torch.mean, "sum": torch.sum}.get(reduction, lambda x: x)(loss)


def _equal(input: Tensor, other: Tensor) -> bool:  # noqa: A002 - torch's name
    """Torch's own as one truth value of data, and none where shapes or identity decide."""
    if input is other or input.shape != other.shape:
        return input is other
    return bool((input == other).all())


def _allclose(
    input: Tensor,  # noqa: A002 - torch's name
    other: Tensor,
    rtol: float = 1e-5,
    atol: float = 1e-8,
    equal_nan: bool = False,
) -> bool:
    """Torch's own as one truth value of data."""
    return bool(input.isclose(other, rtol, atol, equal_nan).all())


def _cov(
    input: Tensor,  # noqa: A002 - torch's name
    *,
    correction: int = 1,
    fweights: Tensor | None = None,
    aweights: Tensor | None = None,
) -> Tensor:
    """Torch's own without the checks of its weights."""
    import torch

    x = input.reshape(1, -1) if input.dim() < 2 else input
    weights = torch.ones(x.shape[1], dtype=x.dtype) if fweights is None else fweights.reshape(-1).to(x.dtype)
    if aweights is not None:
        weights = weights * aweights.reshape(-1)
    total = weights.sum()
    centred = x - ((x * weights).sum(1) / total).unsqueeze(1)
    if aweights is None or not correction:
        factor = total - correction
    else:
        factor = total - correction * (weights * aweights.reshape(-1)).sum() / total
    found = (centred * weights) @ centred.mT / torch.clamp(factor, min=0)
    return found.squeeze()  # of one variable there is one number


def _corrcoef(input: Tensor) -> Tensor:  # noqa: A002 - torch's name
    """Return covariances over deviations."""
    import torch

    found = _cov(input)
    if not found.dim():
        return found / found
    deviations = torch.sqrt(found.diagonal())
    return torch.clamp(found / deviations.unsqueeze(0) / deviations.unsqueeze(1), -1, 1)


def _quantile(
    input: Tensor,  # noqa: A002 - torch's name
    q: Tensor | float,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
    ignore_nan: bool = False,
) -> Tensor:
    """Torch's own without the look at data by which torch before 2.12 finds its shape."""
    import torch

    from ..expansions.select import nanquantile, quantile

    points = q if isinstance(q, torch.Tensor) else torch.full((), q, dtype=input.dtype)
    expansion = nanquantile if ignore_nan else quantile
    return expansion(input, points, dim, keepdim, interpolation=interpolation)


def _bucketize(
    input: Tensor | float,  # noqa: A002 - torch's name
    boundaries: Tensor,
    *,
    out_int32: bool = False,
    right: bool = False,
) -> Tensor:
    """Torch's own; torch before 2.12 finds the shape of a number's bucket by a search through the data."""
    import torch

    if isinstance(input, torch.Tensor):
        return torch.bucketize(input, boundaries, out_int32=out_int32, right=right)
    return torch.searchsorted(boundaries, input, out_int32=out_int32, right=right)
