"""Complex tensors as pairs of real ones: how a call that takes some is built of their parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...ir import Value
from ...ir.composites.terms import Term, sqrt
from ..arguments import is_list
from ..complex_numbers import Complex, parts
from ..lowering_table import LoweringTable
from .call import Call

MOVING = {
    *("Reshape", "Flatten", "FlattenExt", "Squeeze", "ExpandDims", "ExpandDimsView"),
    *("Transpose", "TransposeView", "TransposeExtView", "ReverseV2", "FFTShift", "IFFTShift"),
    *("Concat", "Stack", "Split", "Unstack", "UnstackExtView"),
    *("StridedSlice", "Slice", "SelectExtView", "NarrowView", "Gather"),
    *("BroadcastTo", "BroadcastToView", "Tile", "PadV3", "Pad"),
    *("Neg", "ReduceSum", "ReduceMean", "SumExt", "MeanExt"),
}
"""Primitives that do to a complex tensor what they do to each of its parts."""


class Pair(Complex):
    """A complex tensor as the values of its real and its imaginary part."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "complex numbers, of which ops.real and ops.imag are two tensors"


def lower(call: Call, table: LoweringTable[Call]) -> Any:
    """Build what a call computes: of complex operands, by the rules of complex arithmetic.

    Raises:
        UnsupportedError: where there is no rule.
    """
    if call.operator == "Cast" and call.int(1) in _COMPLEX_TYPES and not call.holds(Complex):
        return _values(call, parts(_term(call, call.operand(0, call.real_dtype))))
    if call.operator in _READING or not call.holds(Complex):
        return _values(call, table.lower(call))
    if call.operator in MOVING:
        return _paired(*(table.lower(call.with_parts(lambda p, n=name: _part(p, n))) for name in _NAMES))
    rule = _RULES.get(call.operator)
    if rule is None:
        raise call.unsupported("expected real numbers, got complex ones")
    return _values(call, rule(call))


_NAMES = ("real", "imag")
_COMPLEX_TYPES = (51, 52)
"""MindSpore's TypeId of them."""
_READING = {
    *("Real", "Imag", "Conj", "Angle"),
    *("FFT", "IFFT", "FFT2", "IFFT2", "FFTN", "IFFTN"),
    *("IRFFT", "IRFFT2", "IRFFTN", "HFFT", "HFFT2", "HFFTN"),
}
"""Rows of the table that take complex operands themselves."""


def _part(found: Any, name: str) -> Any:
    if is_list(found):
        return tuple(_part(item, name) for item in found)
    return getattr(found, name) if isinstance(found, Complex) else found


def _paired(real: Any, imag: Any) -> Any:
    """Return pairs of the values of two results of the same form."""
    if is_list(real):
        return tuple(_paired(r, i) for r, i in zip(real, imag, strict=True))
    return Pair(real, imag)


def _values(call: Call, found: Any) -> Any:
    """Return a complex result as the values of its parts, each of the shape that both spread to."""
    if not isinstance(found, Complex):
        return found.value if isinstance(found, Term) else found
    real, imag = found.real, found.imag
    if not isinstance(real, Term):
        return Pair(real, imag)
    imag = real.beside(imag)
    if call.type_of(imag.value) != call.type_of(real.value):
        imag = Term(
            call.b, call.op("Expand", imag.value, real.op("Shape").value, types=[call.type_of(real.value)])
        )
    return Pair(real.value, imag.value)


def _term(call: Call, value: Value) -> Term:
    return Term(call.b, value)


def operand(call: Call, key: int) -> Complex:
    """Return an operand in the element type of the result's parts; the imaginary part of a real one is 0."""
    found, dtype = call.arg(key), call.real_dtype
    if isinstance(found, np.ndarray) and found.dtype.kind == "c":
        found = Complex(call.constant(found.real, dtype), call.constant(found.imag, dtype))
    if not isinstance(found, Complex):
        return parts(_term(call, call.operand(key, dtype)))
    return Complex(*(_term(call, call.cast(v, dtype)) for v in (found.real, found.imag)))


def _sum(call: Call) -> Complex:
    """Return sums and differences; the second may be scaled."""
    x, y, scale = operand(call, 0), operand(call, 1), call.float(2, 1)
    y = y if scale == 1 else y * scale
    return x - y if "Sub" in call.operator else x + y


def _size(call: Call) -> Complex | Term:
    """Return the absolute value, which `Abs` gives as a complex number."""
    x = operand(call, 0)
    size = sqrt(x.real * x.real + x.imag * x.imag)
    return size if call.operator == "ComplexAbs" else parts(size)


_RULES: dict[str, Callable[[Call], Any]] = {
    **dict.fromkeys(("Add", "AddExt", "AddScalar", "Sub", "SubExt", "SubScalar"), _sum),
    **dict.fromkeys(("Mul", "Muls"), lambda call: operand(call, 0) * operand(call, 1)),
    **dict.fromkeys(("Div", "Divs", "RealDiv"), lambda call: operand(call, 0) / operand(call, 1)),
    "Square": lambda call: operand(call, 0) * operand(call, 0),
    "Abs": _size,
    "ComplexAbs": _size,
}
