"""Fourier transforms, and the parts of complex numbers."""

from __future__ import annotations

import numpy as np

from ....ir import Value
from ....ir.composites.terms import Term, cos, fitted, sin
from ... import formulas
from ...complex_numbers import Complex
from ...lowering_table import LoweringTable
from ..call import Call
from ..complex_numbers import operand

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
    """Return the operand, or one of its parts."""
    found = call.arg(0)
    return found.real if isinstance(found, Complex) else call.value(0)


def _fitted(call: Call, x: Value, axis: int, length: int | None) -> Value:
    (size,) = call.static_shape(x, [axis])
    return fitted(Term(call.b, x), axis, size, size if length is None else length).value


def _transform(
    call: Call, x: Complex, axis: int, norm: str, length: int | None, *, inverse: bool, half: bool = False
) -> Complex:
    """Build the transform along one axis; with `half`, the frequencies up to the middle."""
    found = [_fitted(call, v, axis, length) for v in (x.real, x.imag) if v is not None]
    said = {"axis": axis, "norm": norm, "inverse": inverse, "half": half}
    return Complex(*call.ops("regraft.Fourier", *found, outputs=2, **said))


def _operand(call: Call) -> Complex:
    """Return the values of both parts; None for the imaginary one of real numbers."""
    x = operand(call, 0)
    return Complex(x.real.value, x.imag.value if isinstance(x.imag, Term) else None)


@TABLE.op(
    "FFT", "IFFT", "FFT2", "IFFT2", "FFTN", "IFFTN", "RFFT", "RFFT2", "RFFTN", "IHFFT", "IHFFT2", "IHFFTN"
)
def transform(call: Call) -> Complex:
    """Transform along the last axis, half of it for real numbers, then along the others."""
    axes, sizes, norm = _plan(call)
    x, inverse = _operand(call), call.operator.startswith("I")
    half = call.operator.startswith(("R", "IH"))
    for axis, size in reversed(list(zip(axes, sizes, strict=True))):
        x = _transform(call, x, axis, norm, size, inverse=inverse, half=half)
        half = False
    return x


@TABLE.op("IRFFT", "IRFFT2", "IRFFTN", "HFFT", "HFFT2", "HFFTN")
def transform_to_reals(call: Call) -> Value:
    """All along the other axes, then from half of it along the last."""
    axes, sizes, norm = _plan(call)
    x, inverse = _operand(call), call.operator.startswith("I")
    for axis, size in zip(axes[:-1], sizes[:-1], strict=True):
        x = _transform(call, x, axis, norm, size, inverse=inverse)
    imag = _zeros(call, x.real) if x.imag is None else x.imag
    (held,) = call.static_shape(x.real, axes[-1:])
    n = 2 * (held - 1) if sizes[-1] is None else sizes[-1]
    parts = (_fitted(call, value, axes[-1], n // 2 + 1) for value in (x.real, imag))
    return call.op("regraft.RealFourier", *parts, axis=axes[-1], norm=norm, inverse=inverse, n=n)


@TABLE.op("FFTShift", "IFFTShift")
def exchange_halves(call: Call) -> Value:
    """Move the end of each axis before its beginning."""
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
    return found.real if isinstance(found, Complex) else call.value(0)


@TABLE.op("Imag")
def imaginary_part(call: Call) -> Value:
    """Return zeros of a real number."""
    found = call.arg(0)
    return found.imag if isinstance(found, Complex) else _zeros(call, call.value(0))


@TABLE.op("Conj")
def conjugate(call: Call) -> Complex | Value:
    found = call.arg(0)
    return Complex(found.real, call.op("Neg", found.imag)) if isinstance(found, Complex) else call.value(0)


@TABLE.op("Angle")
def angle(call: Call) -> Value:
    """Lower the angle of complex numbers, the only type with a kernel."""
    found = call.arg(0)
    if not isinstance(found, Complex):
        raise call.unsupported("expected complex numbers")
    return formulas.angle_of(call, found.imag, found.real)


@TABLE.op("Complex")
def complex_number(call: Call) -> Complex:
    return Complex(call.operand(0, call.real_dtype), call.operand(1, call.real_dtype))


@TABLE.op("Polar")
def polar(call: Call) -> Complex:
    """Lower complex numbers from absolute values and angles."""
    length, angle = (Term(call.b, call.operand(key, call.real_dtype)) for key in (0, 1))
    return Complex(cos(angle), sin(angle)) * length


def _zeros(call: Call, x: Value) -> Value:
    return call.op("Expand", call.scalar_like(0, x), call.op("Shape", x), types=[call.type_of(x)])
