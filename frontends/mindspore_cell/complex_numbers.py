"""Complex tensors as pairs of real ones: how a call that takes some is built of their parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...ir import Value
from ..arguments import is_list
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


@dataclass(frozen=True, slots=True)
class Pair:
    """A complex tensor as the values of its real and its imaginary part."""

    real: Value
    imag: Value

    def __repr__(self) -> str:
        return "complex numbers, of which ops.real and ops.imag are two tensors"


def lower(call: Call, table: LoweringTable[Call]) -> Any:
    """Build what a call computes: of complex operands, by the rules of complex arithmetic.

    Raises:
        UnsupportedError: where there is no rule.
    """
    if call.operator in _READING:
        return table.lower(call)
    if not call.holds(Pair):
        return _of_reals(call, table)
    if call.operator in MOVING:
        return _paired(*(table.lower(call.with_parts(lambda p, n=name: _part(p, n))) for name in _NAMES))
    rule = _RULES.get(call.operator)
    if rule is None:
        raise call.unsupported("expected real numbers, got complex ones")
    return rule(call)


def _of_reals(call: Call, table: LoweringTable[Call]) -> Any:
    if call.operator == "Cast" and call.int(1) in _COMPLEX_TYPES:
        x = call.operand(0, call.real_dtype)
        return Pair(x, call.op("Sub", x, x))
    return table.lower(call)


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
    return getattr(found, name) if isinstance(found, Pair) else found


def _paired(real: Any, imag: Any) -> Any:
    """Pairs of the values of two results of the same form."""
    if is_list(real):
        return tuple(_paired(r, i) for r, i in zip(real, imag, strict=True))
    return Pair(real, imag)


def parts(call: Call, key: int) -> tuple[Value, Value | None]:
    """Both parts of an operand, in the element type of the result's; of a real one the second is None."""
    found, dtype = call.arg(key), call.real_dtype
    if isinstance(found, Pair):
        return call.cast(found.real, dtype), call.cast(found.imag, dtype)
    if isinstance(found, np.ndarray) and found.dtype.kind == "c":
        return call.constant(found.real, dtype), call.constant(found.imag, dtype)
    return call.operand(key, dtype), None


def _sum(call: Call) -> Pair:
    """Sums and differences; the second may be scaled."""
    op = "Sub" if "Sub" in call.operator else "Add"
    (a, b), (c, d) = parts(call, 0), parts(call, 1)
    scale = call.float(2, 1)
    if scale != 1:
        c, d = (v and call.op("Mul", v, call.scalar_like(scale, v)) for v in (c, d))
    assert c is not None
    real = call.op(op, a, c)
    if b is None or d is None:
        one = d if b is None else b
        assert one is not None
        shaped = call.op("Mul", real, call.scalar_like(0, real))  # the other may be larger
        return Pair(real, call.op("Add", shaped, call.op("Neg", one) if b is None and op == "Sub" else one))
    return Pair(real, call.op(op, b, d))


def _product(call: Call) -> Pair:
    (a, b), (c, d) = parts(call, 0), parts(call, 1)
    if b is None:
        (a, b), (c, d) = (c, d), (a, b)
    assert b is not None
    return multiply(call, Pair(a, b), Pair(c, d) if d is not None else c)


def multiply(call: Call, x: Pair, y: Pair | Value) -> Pair:
    """Build the product with another complex tensor, or a real one."""
    if isinstance(y, Value):
        return Pair(call.op("Mul", x.real, y), call.op("Mul", x.imag, y))
    real = call.op("Sub", call.op("Mul", x.real, y.real), call.op("Mul", x.imag, y.imag))
    imag = call.op("Add", call.op("Mul", x.real, y.imag), call.op("Mul", x.imag, y.real))
    return Pair(real, imag)


def _quotient(call: Call) -> Pair:
    (a, b), (c, d) = parts(call, 0), parts(call, 1)
    if d is None:
        assert b is not None
        return Pair(call.op("Div", a, c), call.op("Div", b, c))
    x = Pair(a, call.op("Sub", a, a) if b is None else b)
    over = call.op("Add", call.op("Mul", c, c), call.op("Mul", d, d))
    found = multiply(call, x, Pair(c, call.op("Neg", d)))
    return Pair(call.op("Div", found.real, over), call.op("Div", found.imag, over))


def _square(call: Call) -> Pair:
    x = call.arg(0)
    return multiply(call, x, x)


def _size(call: Call) -> Pair | Value:
    """The absolute value, which `Abs` gives as a complex number."""
    x = call.arg(0)
    squares = (call.op("Mul", v, v) for v in (x.real, x.imag))
    size = call.op("Sqrt", call.op("Add", *squares))
    return size if call.operator == "ComplexAbs" else Pair(size, call.op("Sub", x.imag, x.imag))


_RULES: dict[str, Callable[[Call], Any]] = {
    **dict.fromkeys(("Add", "AddExt", "AddScalar", "Sub", "SubExt", "SubScalar"), _sum),
    **dict.fromkeys(("Mul", "Muls"), _product),
    **dict.fromkeys(("Div", "Divs", "RealDiv"), _quotient),
    "Square": _square,
    "Abs": _size,
    "ComplexAbs": _size,
}
