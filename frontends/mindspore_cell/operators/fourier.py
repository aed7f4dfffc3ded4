"""Fourier transforms, and the parts of complex numbers."""

from __future__ import annotations

import numpy as np

from ....ir import Value
from ... import formulas
from ...lowering_table import LoweringTable
from ..call import Call
from ..complex_numbers import Pair, multiply, parts

TABLE = LoweringTable[Call]("MindSpore")
_NORMS = {None: "backward", 0: "backward", 1: "forward", 2: "ortho"}


def _plan(call: Call) -> tuple[list[int], list[int | None], str]:
    """Axes, the lengths that are wanted along them or None, and the norm."""
    given, rank = call.arg(0), call.rank(_any(call))
    call.ignore(0)
    assert given is not None
    sizes = call.optional_ints(1)
    if call.arg(2, None) is None:  # all, or as many of the last as there are sizes
        axes = list(range(0 if sizes is None else rank - len(sizes), rank))
    else:
        axes = [call.from_front(axis, rank) for axis in call.ints(2)]
    return axes, sizes or [None] * len(axes), _NORMS[call.plain(3, None)]


def _any(call: Call) -> Value:
    """The operand, or one of its parts."""
    found = call.arg(0)
    return found.real if isinstance(found, Pair) else call.value(0)


def _fitted(call: Call, x: Value, axis: int, length: int | None) -> Value:
    (size,) = call.static_shape(x, [axis])
    return formulas.resize_axis(call, x, axis, size, size if length is None else length)


def _transform(call: Call, x: Pair | Value, axis: int, norm: str, length: int | None, inverse: bool) -> Pair:
    """Transform along one axis."""
    values = [x] if isinstance(x, Value) else [x.real, x.imag]
    found = [_fitted(call, value, axis, length) for value in values]
    return Pair(*call.ops("regraft.Fourier", *found, outputs=2, axis=axis, norm=norm, inverse=inverse))


def _half(call: Call, x: Value, axis: int, norm: str, length: int | None, inverse: bool) -> Pair:
    """The frequencies of real numbers up to the middle."""
    x = _fitted(call, x, axis, length)
    said = {"axis": axis, "norm": norm, "inverse": inverse, "half": 1}
    return Pair(*call.ops("regraft.Fourier", x, outputs=2, **said))


def _real(call: Call, x: Pair, axis: int, norm: str, length: int | None, inverse: bool) -> Value:
    """The real numbers of which the frequencies up to the middle are given."""
    (held,) = call.static_shape(x.real, [axis])
    n = 2 * (held - 1) if length is None else length
    real, imag = (_fitted(call, value, axis, n // 2 + 1) for value in (x.real, x.imag))
    return call.op("regraft.RealFourier", real, imag, axis=axis, norm=norm, inverse=inverse, n=n)


def _operand(call: Call) -> Pair | Value:
    real, imag = parts(call, 0)
    return real if imag is None else Pair(real, imag)


@TABLE.op("FFT", "IFFT", "FFT2", "IFFT2", "FFTN", "IFFTN")
def transform(call: Call) -> Pair:
    """Along one axis after another."""
    axes, sizes, norm = _plan(call)
    x: Pair | Value = _operand(call)
    for axis, size in zip(axes, sizes, strict=True):
        x = _transform(call, x, axis, norm, size, call.operator.startswith("I"))
    assert isinstance(x, Pair)
    return x


@TABLE.op("RFFT", "RFFT2", "RFFTN", "IHFFT", "IHFFT2", "IHFFTN")
def transform_of_reals(call: Call) -> Pair:
    """Half of it along the last axis, then all along the others."""
    axes, sizes, norm = _plan(call)
    inverse = call.operator.startswith("I")
    x = _half(call, call.operand(0, call.real_dtype), axes[-1], norm, sizes[-1], inverse)
    for axis, size in zip(axes[:-1], sizes[:-1], strict=True):
        x = _transform(call, x, axis, norm, size, inverse)
    return x


@TABLE.op("IRFFT", "IRFFT2", "IRFFTN", "HFFT", "HFFT2", "HFFTN")
def transform_to_reals(call: Call) -> Value:
    """All along the other axes, then from half of it along the last."""
    axes, sizes, norm = _plan(call)
    inverse = call.operator.startswith("I")
    x = _operand(call)
    for axis, size in zip(axes[:-1], sizes[:-1], strict=True):
        x = _transform(call, x, axis, norm, size, inverse)
    if isinstance(x, Value):
        x = Pair(x, call.op("Mul", x, call.scalar_like(0, x)))
    return _real(call, x, axes[-1], norm, sizes[-1], inverse)


@TABLE.op("FFTShift", "IFFTShift")
def exchange_halves(call: Call) -> Value:
    """The end of each axis in front of its beginning."""
    x, rank, given = call.value(0), call.rank(), call.arg(1, None)
    axes = list(range(rank)) if given is None else [call.from_front(a, rank) for a in call.items(given)]
    for axis, size in zip(axes, call.static_shape(x, axes), strict=True):
        at = size - size // 2 if call.operator == "FFTShift" else size // 2
        if 0 < at < size:
            ends = (formulas.slice_axes(call, x, [axis], *bounds) for bounds in (([at], [size]), ([0], [at])))
            x = call.op("Concat", *ends, axis=axis)
    return x


@TABLE.op("FFTFreq", "RFFTFreq")
def frequencies(call: Call) -> Value:
    call.ignore(2)  # the result's type, which MindIR states as the node's own
    found = (np.fft.fftfreq if call.operator == "FFTFreq" else np.fft.rfftfreq)(call.int(0), call.float(1))
    return call.constant(found, call.dtype)


@TABLE.op("Real")
def real_part(call: Call) -> Value:
    found = call.arg(0)
    return found.real if isinstance(found, Pair) else call.value(0)


@TABLE.op("Imag")
def imaginary_part(call: Call) -> Value:
    """Zeros of a real number."""
    found = call.arg(0)
    return found.imag if isinstance(found, Pair) else _zeros(call, call.value(0))


@TABLE.op("Conj")
def conjugate(call: Call) -> Pair | Value:
    found = call.arg(0)
    return Pair(found.real, call.op("Neg", found.imag)) if isinstance(found, Pair) else call.value(0)


@TABLE.op("Angle")
def angle(call: Call) -> Value:
    """Of complex numbers, for which alone there is a kernel."""
    found = call.arg(0)
    if not isinstance(found, Pair):
        raise call.unsupported("expected complex numbers")
    return formulas.angle_of(call, found.imag, found.real)


@TABLE.op("Complex")
def complex_number(call: Call) -> Pair:
    return Pair(call.operand(0, call.real_dtype), call.operand(1, call.real_dtype))


@TABLE.op("Polar")
def polar(call: Call) -> Pair:
    """Of absolute values and angles."""
    angle = call.operand(1, call.real_dtype)
    turned = Pair(call.op("Cos", angle), call.op("Sin", angle))
    return multiply(call, turned, call.operand(0, call.real_dtype))


def _zeros(call: Call, x: Value) -> Value:
    return call.op("Expand", call.scalar_like(0, x), call.op("Shape", x))
