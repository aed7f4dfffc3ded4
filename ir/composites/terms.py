"""Formulas on values of a graph, written as they would be on a framework's tensors.

An expansion that is arithmetic reads as its formula: ``where(x < 0, -found, found)`` adds a Less, a Neg and a
Where. Numbers become 0-d constants of the element type of the term beside them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..dims import broadcast
from ..types import TensorType, onnx_dtype
from .base import Expand

if TYPE_CHECKING:
    from ..builder import Builder
    from ..nodes import Operator, Value

Number = int | float


class Term:
    """A value in a formula; what is computed with it is added to its graph."""

    __slots__ = ("b", "value")

    def __init__(self, b: Builder, value: Value) -> None:
        self.b = b
        self.value = value

    @property
    def dtype(self) -> str:
        """Its element type."""
        return self.b.type_of(self.value).dtype

    def op(self, op_type: str, *others: Term | Number | None, **attributes: object) -> Term:
        """Return an operator of one output whose first operand it is."""
        operands = [None if o is None else self.beside(o).value for o in others]
        return Term(self.b, self.b.op(op_type, self.value, *operands, types=None, **attributes))

    def beside(self, other: Term | Number) -> Term:
        """Return another term, or a number as a term of this element type."""
        return other if isinstance(other, Term) else Term(self.b, self.b.scalar_like(other, self.value))

    def cast(self, dtype: str) -> Term:
        """Return the term with another element type."""
        return self if self.dtype == dtype else self.op("Cast", to=onnx_dtype(dtype))

    def clip(self, low: Number | None = None, high: Number | None = None) -> Term:
        """Return the term clipped to two numbers."""
        return self.op("Clip", low, *([] if high is None else [high]))

    def equals(self, other: Term | Number) -> Term:
        """Test whether it equals another term or a number."""
        return self.op("Equal", other)

    def __add__(self, other: Term | Number) -> Term:
        return self.op("Add", other)

    def __radd__(self, other: Number) -> Term:
        return self.beside(other).op("Add", self)

    def __sub__(self, other: Term | Number) -> Term:
        return self.op("Sub", other)

    def __rsub__(self, other: Number) -> Term:
        return self.beside(other).op("Sub", self)

    def __mul__(self, other: Term | Number) -> Term:
        return self.op("Mul", other)

    def __rmul__(self, other: Number) -> Term:
        return self.beside(other).op("Mul", self)

    def __truediv__(self, other: Term | Number) -> Term:
        return self.op("Div", other)

    def __rtruediv__(self, other: Number) -> Term:
        return self.beside(other).op("Div", self)

    def __pow__(self, other: Term | Number) -> Term:
        return self.op("Pow", other)

    def __rpow__(self, other: Number) -> Term:
        return self.beside(other).op("Pow", self)

    def __neg__(self) -> Term:
        return self.op("Neg")

    def __abs__(self) -> Term:
        return self.op("Abs")

    def __lt__(self, other: Term | Number) -> Term:
        return self.op("Less", other)

    def __le__(self, other: Term | Number) -> Term:
        return self.op("LessOrEqual", other)

    def __gt__(self, other: Term | Number) -> Term:
        return self.op("Greater", other)

    def __ge__(self, other: Term | Number) -> Term:
        return self.op("GreaterOrEqual", other)

    def __and__(self, other: Term) -> Term:
        return self.op("And", other)

    def __or__(self, other: Term) -> Term:
        return self.op("Or", other)

    def __invert__(self) -> Term:
        return self.op("Not")


def exp(x: Term) -> Term:
    """Return the exponential."""
    return x.op("Exp")


def log(x: Term) -> Term:
    """Return the natural logarithm."""
    return x.op("Log")


def sqrt(x: Term) -> Term:
    """Return the square root."""
    return x.op("Sqrt")


def sin(x: Term) -> Term:
    """Return the sine."""
    return x.op("Sin")


def cos(x: Term) -> Term:
    """Return the cosine."""
    return x.op("Cos")


def floor(x: Term) -> Term:
    """Return the next whole number below."""
    return x.op("Floor")


def truncate(x: Term) -> Term:
    """Return the next whole number towards zero."""
    return x.op("Sign") * floor(abs(x))


def maximum(x: Term, y: Term) -> Term:
    """Return the larger of two."""
    return x.op("Max", y)


def is_whole(x: Term) -> Term:
    """Test whether a number is whole."""
    return floor(x).equals(x)


def is_infinite(x: Term) -> Term:
    """Test whether a number is infinite."""
    return x.op("IsInf")


def where(condition: Term, x: Term | Number, y: Term | Number) -> Term:
    """Return one or the other; two numbers are float64."""
    if not isinstance(x, Term):
        x = y.beside(x) if isinstance(y, Term) else Term(condition.b, condition.b.constant(x, "float64"))
    return condition.op("Where", x, x.beside(y))


def horner(coefficients: Sequence[float], x: Term) -> Term:
    """Return a polynomial, the coefficient of the highest power first."""
    found = x * coefficients[0] + coefficients[1]
    for c in coefficients[2:]:
        found = found * x + c
    return found


def series(coefficients: Sequence[float], x: Term) -> Term:
    """Return a polynomial, the coefficient of the lowest power first."""
    return horner(coefficients[::-1], x)


# -- what composites are made of -------------------------------------------------------------------------


def whole(like: Term, *numbers: int) -> Term:
    """Return a vector of int64, as axes and sizes are."""
    return Term(like.b, like.b.constant(list(numbers), "int64"))


def fitted(x: Term, axis: int, size: int, length: int) -> Term:
    """Return a term with an axis cut, or filled up with zeros at its end, to a length."""
    if length < size:
        return x.op("Slice", whole(x, 0), whole(x, length), whole(x, axis))
    if length > size:
        return x.op("Pad", whole(x, 0, length - size), None, whole(x, axis))
    return x


def terms_of(b: Builder, operands: Sequence[Value | None]) -> list[Term]:
    """Return the operands that are there."""
    return [Term(b, value) for value in operands if value is not None]


def in_float64(function: Callable[..., Term]) -> Expand:
    """The expansion that a formula of all operands is, computed in float64 and given in their own type."""

    def expand(b: Builder, _: Operator, operands: Sequence[Value | None]) -> list[Value]:
        terms = terms_of(b, operands)
        return [function(*(x.cast("float64") for x in terms)).cast(terms[0].dtype).value]

    return expand


def infer_elementwise(operator: Operator, types: Sequence[TensorType | None]) -> list[TensorType | None]:
    """Return the element type that all operands share, and the shape that they spread to.

    Raises:
        ValueError: where element types differ or shapes do not fit.
    """
    given = [t for t in types if t is not None]
    kinds = {t.dtype for t in given}
    if len(kinds) > 1:
        raise ValueError(f"expected operands of one element type, got {' and '.join(sorted(kinds))}")
    if not given or len(given) < len(types):
        return [None if t is None else t.with_shape(None) for t in types[:1]]
    shapes = [t.shape for t in given if t.shape is not None]
    return [given[0].with_shape(broadcast(*shapes) if len(shapes) == len(given) else None)]


def infer_floating(operator: Operator, types: Sequence[TensorType | None]) -> list[TensorType | None]:
    """Infer as `infer_elementwise` does, for floating-point numbers only.

    Raises:
        ValueError: where there are others.
    """
    for given in types:
        if given is not None and not given.dtype.startswith(("float", "bfloat")):
            raise ValueError(f"expected floating-point numbers, got {given.dtype}")
    return infer_elementwise(operator, types)


def infer_whole(operator: Operator, types: Sequence[TensorType | None]) -> list[TensorType | None]:
    """Infer as `infer_elementwise` does, for integers only.

    Raises:
        ValueError: where there are others.
    """
    for given in types:
        if given is not None and not given.dtype.startswith(("int", "uint")):
            raise ValueError(f"expected integers, got {given.dtype}")
    return infer_elementwise(operator, types)


def axis_of(operator: Operator, given: TensorType) -> int:
    """Return the attribute `axis`, from the front of a tensor of known rank.

    Raises:
        ValueError: where the tensor has no such axis.
    """
    axis, rank = operator.int("axis"), given.rank
    assert rank is not None
    if not -rank <= axis < rank:
        raise ValueError(f"expected an axis of {given}, got {axis}")
    return axis % rank


LOG_2 = math.log(2)
PI = math.pi
