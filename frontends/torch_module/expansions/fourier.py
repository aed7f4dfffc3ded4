"""Torch's Fourier transforms by those along one axis, which are composites on pairs of real tensors."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ...complex_numbers import Complex, parts
from .complex_numbers import table
from .table import Inexpressible

_LIBRARY = torch.library.Library("regraft", "FRAGMENT")
_LIBRARY.define(
    "fourier(Tensor x, Tensor? imag, int axis, str norm, bool inverse, bool half) -> (Tensor, Tensor)"
)
_LIBRARY.define("real_fourier(Tensor real, Tensor imag, int axis, str norm, int n, bool inverse) -> Tensor")


def _with_size(x: Tensor, axis: int, size: int) -> Tensor:
    shape = list(x.shape)
    shape[axis] = size
    return x.new_empty(shape)


@torch.library.register_fake("regraft::fourier", lib=_LIBRARY)
def _shapes_of_transform(
    x: Tensor, imag: Tensor | None, axis: int, norm: str, inverse: bool, half: bool
) -> tuple[Tensor, Tensor]:
    del imag, norm, inverse
    size = x.shape[axis] // 2 + 1 if half else x.shape[axis]
    return _with_size(x, axis, size), _with_size(x, axis, size)


@torch.library.register_fake("regraft::real_fourier", lib=_LIBRARY)
def _shape_of_signal(real: Tensor, imag: Tensor, axis: int, norm: str, n: int, inverse: bool) -> Tensor:
    del imag, norm, inverse
    return _with_size(real, axis, n)


def _along(
    x: Tensor | Complex, axis: int, norm: str, *, inverse: bool = False, half: bool = False
) -> Complex:
    """Return the transform along an axis, or its first half only."""
    given = x if isinstance(x, Complex) else Complex(x, None)
    _require_static(given.real.shape[axis])
    return Complex(*torch.ops.regraft.fourier(given.real, given.imag, axis, norm, inverse, half))


def _fitted(x: Any, axis: int, n: int | None) -> Any:
    """Return a tensor with an axis cut or filled with zeros to `n`."""
    if isinstance(x, Complex):
        return Complex(_fitted(x.real, axis, n), _fitted(x.imag, axis, n))
    x = x if x.is_floating_point() else x.to(torch.get_default_dtype())
    size = x.shape[axis]
    if n is None or size == n:
        return x
    if size > n:
        return x.narrow(axis, 0, n)
    return torch.nn.functional.pad(x, [0, 0] * (x.dim() - 1 - axis % x.dim()) + [0, n - size])


def _require_static(n: Any) -> None:
    if not isinstance(n, int):
        raise Inexpressible("the length of a transform is symbolic")


def _transform(
    x: Any,
    s: Sequence[int] | None = None,
    dim: Sequence[int] | None = None,
    norm: str | None = None,
    *,
    kind: str,
    inverse: bool,
) -> Any:
    """Return the transform along several axes.

    Args:
        x: the signal.
        s: lengths that the axes are cut or filled to; -1 for that of an axis.
        dim: the axes.
        norm: torch's word.
        kind: "half" for real numbers and the first half of the last axis, "real" for the other way round.
        inverse: the sign of the exponent.
    """
    rank, norm = parts(x).real.dim(), norm or "backward"
    if dim is None:
        dim = range(rank) if s is None else range(rank - len(s), rank)
    sizes = [None] * len(dim) if s is None else [None if n == -1 else n for n in s]
    *others, (last, n) = zip(dim, sizes, strict=True)
    if kind != "real":
        x = _along(_fitted(x, last, n), last, norm, inverse=inverse, half=kind == "half")
        others.reverse()
    for axis, length in others:
        x = _along(_fitted(x, axis, length), axis, norm, inverse=inverse)
    if kind != "real":
        return x
    x = x if isinstance(x, Complex) else Complex(x, torch.zeros_like(x))
    n = 2 * (x.real.shape[last] - 1) if n is None else n
    _require_static(n)
    x = _fitted(x, last, n // 2 + 1)
    return torch.ops.regraft.real_fourier(x.real, x.imag, last, norm, n, inverse)


for _name, _kind, _inverse in (
    ("fft", "", False),
    ("ifft", "", True),
    ("rfft", "half", False),
    ("ihfft", "half", True),
    ("irfft", "real", True),
    ("hfft", "real", False),
):
    _function = partial(_transform, kind=_kind, inverse=_inverse)
    table.op(f"aten.fft_{_name}n.default")(_function)
    table.op(f"aten.fft_{_name}2.default")(
        lambda x, s=None, dim=(-2, -1), norm=None, *, _own=_function: _own(x, s, dim, norm)
    )
    table.op(f"aten.fft_{_name}.default")(
        lambda x, n=None, dim=-1, norm=None, *, _own=_function: _own(x, n and [n], [dim], norm)
    )

_NORMS = ("backward", "ortho", "forward")
"""Factors of a forward transform in torch's kernels: 1, one over the root of the length, or over it."""


@table.op("aten._fft_r2c.default")
def real_to_complex(x: Tensor, dim: Sequence[int], normalization: int, onesided: bool) -> Complex:
    """Torch's own kernel, which its other transforms decompose into."""
    return _transform(x, None, dim, _NORMS[normalization], kind="half" if onesided else "", inverse=False)


@table.op("aten._fft_c2c.default")
def complex_to_complex(x: Complex, dim: Sequence[int], normalization: int, forward: bool) -> Complex:
    """Torch's own kernel."""
    norm = _NORMS[normalization if forward else 2 - normalization]
    return _transform(x, None, dim, norm, kind="", inverse=not forward)


@table.op("aten._fft_c2r.default")
def complex_to_real(x: Complex, dim: Sequence[int], normalization: int, last_dim_size: int) -> Tensor:
    """Torch's own kernel."""
    s = [*[-1] * (len(dim) - 1), last_dim_size]
    return _transform(x, s, dim, _NORMS[2 - normalization], kind="real", inverse=True)


@table.op("aten.stft.default")
def stft(
    x: Tensor | Complex,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Complex | Tensor:
    """Return transforms of windows of the last axis, which are then the last axis."""
    if isinstance(x, Complex) or (align_to_window and win_length != n_fft):
        raise Inexpressible("it transforms complex signals, or windows shorter than the transform")
    frames = x.unfold(-1, n_fft, hop_length or n_fft // 4)
    if window is not None or win_length:
        window = torch.ones(win_length or n_fft, dtype=x.dtype) if window is None else window
        before = (n_fft - window.shape[0]) // 2
        frames = frames * torch.nn.functional.pad(window, (before, n_fft - window.shape[0] - before))
    y = _along(frames, -1, "ortho" if normalized else "backward", half=onesided is not False)
    y = Complex(y.real.mT, y.imag.mT)
    return torch.stack([y.real, y.imag], -1) if return_complex is False else y
