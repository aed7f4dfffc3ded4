"""Torch's Fourier transforms by those along one axis, which are composites on pairs of real tensors.

Torch's alone: this frontend alone takes complex tensors apart, and MXNet has transforms for GPUs only. Those
of torch end in kernels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from .complex_numbers import Complex, table
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


def transform(
    x: Tensor | Complex,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    sign: int = -1,
    half: bool = False,
) -> Complex:
    """The transform along an axis; `sign` is that of the exponent, `half` gives the first half only."""
    given = _fitted(x, dim, n)
    parts = (given.real, given.imag) if isinstance(given, Complex) else (given, None)
    _require_static(parts[0].shape[dim])
    return Complex(*torch.ops.regraft.fourier(*parts, dim, norm or "backward", sign > 0, half))


def inverse_of_half(
    x: Tensor | Complex, n: int | None = None, dim: int = -1, norm: str | None = None, *, sign: int = 1
) -> Tensor:
    """The real signal whose transform begins with `x`."""
    given = x if isinstance(x, Complex) else Complex(x, torch.zeros_like(x))
    length: int = 2 * (given.real.shape[dim] - 1) if n is None else n
    _require_static(length)
    given = _fitted(given, dim, length // 2 + 1)
    return torch.ops.regraft.real_fourier(given.real, given.imag, dim, norm or "backward", length, sign > 0)


def _fitted(x: Any, dim: int, n: int | None) -> Any:
    """An axis cut or filled with zeros to `n`."""
    if isinstance(x, Complex):
        return Complex(_fitted(x.real, dim, n), _fitted(x.imag, dim, n))
    x = x if x.is_floating_point() else x.to(torch.get_default_dtype())
    size = x.shape[dim]
    if n is None or size == n:
        return x
    if size > n:
        return x.narrow(dim, 0, n)
    return torch.nn.functional.pad(x, [0, 0] * (x.dim() - 1 - dim % x.dim()) + [0, n - size])


def _require_static(n: Any) -> None:
    if not isinstance(n, int):
        raise Inexpressible("the length of a transform is symbolic")


def _axes(x: Any, s: Sequence[int] | None, dim: Sequence[int] | None) -> list[tuple[int, int | None]]:
    """(axis, length) of every transform of several axes."""
    rank = (x.real if isinstance(x, Complex) else x).dim()
    if dim is None:
        dim = range(rank) if s is None else range(rank - len(s), rank)
    sizes: Sequence[int | None] = [None] * len(dim) if s is None else [None if n == -1 else n for n in s]
    return list(zip(dim, sizes, strict=True))


def _several(
    x: Any,
    s: Sequence[int] | None = None,
    dim: Sequence[int] | None = None,
    norm: str | None = None,
    *,
    sign: int,
) -> Any:
    for axis, n in reversed(_axes(x, s, dim)):
        x = transform(x, n, axis, norm, sign=sign)
    return x


def _several_half(
    x: Any,
    s: Sequence[int] | None = None,
    dim: Sequence[int] | None = None,
    norm: str | None = None,
    *,
    sign: int,
) -> Complex:
    *others, (last, n) = _axes(x, s, dim)
    y = transform(x, n, last, norm, half=True, sign=sign)
    for axis, n in reversed(others):
        y = transform(y, n, axis, norm, sign=sign)
    return y


def _several_inverse_half(
    x: Any,
    s: Sequence[int] | None = None,
    dim: Sequence[int] | None = None,
    norm: str | None = None,
    *,
    sign: int,
) -> Tensor:
    *others, (last, n) = _axes(x, s, dim)
    for axis, length in others:
        x = transform(x, length, axis, norm, sign=sign)
    return inverse_of_half(x, n, last, norm, sign=sign)


for _name, _function in {
    "fft_fft": partial(transform, sign=-1),
    "fft_ifft": partial(transform, sign=1),
    "fft_rfft": partial(transform, sign=-1, half=True),
    "fft_ihfft": partial(transform, sign=1, half=True),
    "fft_irfft": partial(inverse_of_half, sign=1),
    "fft_hfft": partial(inverse_of_half, sign=-1),
}.items():
    table.of(f"aten.{_name}.default")(_function)

for _name, _function in {
    "fft_fft": partial(_several, sign=-1),
    "fft_ifft": partial(_several, sign=1),
    "fft_rfft": partial(_several_half, sign=-1),
    "fft_ihfft": partial(_several_half, sign=1),
    "fft_irfft": partial(_several_inverse_half, sign=1),
    "fft_hfft": partial(_several_inverse_half, sign=-1),
}.items():
    table.of(f"aten.{_name}n.default")(_function)
    table.of(f"aten.{_name}2.default")(
        lambda x, s=None, dim=(-2, -1), norm=None, *, _own=_function: _own(x, s, dim, norm)
    )


@table.of("aten._fft_r2c.default")
def real_to_complex(x: Tensor, dim: Sequence[int], normalization: int, onesided: bool) -> Complex:
    """Torch's own kernel, which its other transforms decompose into."""
    *others, last = dim
    y = transform(x, None, last, "backward", half=onesided)
    for axis in reversed(others):
        y = transform(y, None, axis, "backward")
    return _normalised(y, [x.shape[a] for a in dim], normalization)


@table.of("aten._fft_c2c.default")
def complex_to_complex(x: Complex, dim: Sequence[int], normalization: int, forward: bool) -> Complex:
    """Torch's own kernel."""
    sizes = [x.real.shape[a] for a in dim]
    for axis in reversed(dim):
        x = transform(x, None, axis, "backward" if forward else "forward", sign=-1 if forward else 1)
    return _normalised(x, sizes, normalization)


@table.of("aten._fft_c2r.default")
def complex_to_real(x: Complex, dim: Sequence[int], normalization: int, last_dim_size: int) -> Tensor:
    """Torch's own kernel."""
    *others, last = dim
    sizes = [*(x.real.shape[a] for a in others), last_dim_size]
    for axis in others:
        x = transform(x, None, axis, "forward", sign=1)
    y = inverse_of_half(x, last_dim_size, last, "forward")
    found = _normalised(Complex(y, y), sizes, normalization)
    return found.real


def _normalised(x: Complex, sizes: Sequence[int], normalization: int) -> Complex:
    """Torch's codes: 0 none, 1 by the root of the number of places, 2 by their number."""
    if not normalization:
        return x
    number = math.prod(sizes)
    factor = 1 / number if normalization == 2 else 1 / math.sqrt(number)
    return Complex(x.real * factor, x.imag * factor)


@table.of("aten.stft.default")
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
    """Transforms of windows of the last axis, which are then the last axis."""
    if isinstance(x, Complex) or (align_to_window and win_length != n_fft):
        raise Inexpressible("it transforms complex signals, or windows shorter than the transform")
    frames = x.unfold(-1, n_fft, hop_length or n_fft // 4)
    if window is not None or win_length:
        window = torch.ones(win_length or n_fft, dtype=x.dtype) if window is None else window
        before = (n_fft - window.shape[0]) // 2
        frames = frames * torch.nn.functional.pad(window, (before, n_fft - window.shape[0] - before))
    y = transform(frames, norm="ortho" if normalized else None, half=onesided is not False)
    y = Complex(y.real.mT, y.imag.mT)
    return torch.stack([y.real, y.imag], -1) if return_complex is False else y
