"""Symbolic dimensions: torch's symbols under our names, and as values computed in the graph."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ...ir import Dim, TensorType, UnsupportedError, onnx_dtype

if TYPE_CHECKING:
    import sympy
    import torch

    from ...ir import Builder, Value

Size = Any
"""An integer of the program: an int, or a sympy expression in our symbols."""


class Symbols:
    """Torch's size symbols under our names, and the inputs that carry them.

    Args:
        placeholders: (name, fake tensor) of every tensor input.
        equal: torch's symbols that stand for others.
    """

    def __init__(
        self,
        placeholders: Iterable[tuple[str, torch.Tensor]],
        equal: Mapping[Any, Any] = MappingProxyType({}),
    ) -> None:
        import sympy

        self._names: dict[sympy.Symbol, sympy.Symbol] = {}
        self._sizes: dict[sympy.Expr, Size] = {}
        self.carriers: dict[sympy.Symbol, tuple[str, int]] = {}
        batch = None
        for name, fake in placeholders:
            for axis, size in enumerate(fake.shape):
                expression = _expression(size)
                if not isinstance(expression, sympy.Symbol):
                    continue
                if axis == 0 and batch in (None, equal.get(expression, expression)):
                    batch = equal.get(expression, expression)
                    chosen = sympy.Symbol("N", integer=True, positive=True)
                else:
                    chosen = sympy.Symbol(f"{name}_{axis}", integer=True, positive=True)
                self._names.setdefault(expression, chosen)
                self.carriers.setdefault(self._names[expression], (name, axis))

    def size(self, value: object) -> Size:
        """Return an int or SymInt of torch's in our symbols."""
        if type(value) is int:
            return value
        expression = _expression(value)
        if isinstance(expression, int):
            return expression
        if expression not in self._sizes:
            found = _whole(expression.xreplace(self._names))
            self._sizes[expression] = int(found) if found.is_Integer else found
        return self._sizes[expression]

    def number(self, value: object) -> Any:
        """Return a number of torch's in our symbols, whether whole or not."""
        expression = _expression(value)
        return expression.xreplace(self._names) if hasattr(expression, "xreplace") else expression

    def relation(self, value: torch.SymBool) -> Size:
        """Return a SymBool of torch's as a relation of our symbols."""
        return value.node.expr.xreplace(self._names)

    def sizes(self, fake: torch.Tensor) -> list[Size]:
        """Return the sizes of a fake tensor in our symbols."""
        return [self.size(s) for s in fake.shape]

    def dim(self, value: object) -> Dim:
        """Return the same as a dimension of a type; None for what the text form cannot hold."""
        return as_dim(self.size(value))

    def type(self, fake: torch.Tensor) -> TensorType:
        """Return the type of a fake tensor; a complex one has its real and imaginary part on a last axis."""
        shape = tuple(self.dim(s) for s in fake.shape)
        if fake.dtype.is_complex:
            return TensorType(dtype_of(fake.dtype.to_real()), (*shape, 2))
        return TensorType(dtype_of(fake.dtype), shape)


def dtype_of(dtype: torch.dtype) -> str:
    """Our name of a torch element type.

    Raises:
        UnsupportedError: for one that ONNX does not have.
    """
    from ...ir.types import DTYPES, STORED_DTYPES

    name = str(dtype).removeprefix("torch.")
    if name not in DTYPES and not (name in STORED_DTYPES and name.startswith("float8")):
        raise UnsupportedError("E203", f"expected an element type that ONNX has, got `{dtype}`")
    return name


def number_of_data() -> UnsupportedError:
    """Return the error for a number that Python takes out of a tensor and computes with."""
    return UnsupportedError(
        "E203",
        "expected a static number, got a number that Python takes out of a tensor (`.item()`, `float()`, "
        "`.tolist()`)",
        hint="leave it a tensor: `x.max()` in place of `x.max().item()`",
    )


def is_of_data(size: object) -> bool:
    """Whether a number in our symbols depends on one that a run takes out of a tensor."""
    from torch.utils._sympy.symbol import SymT, symbol_is_type

    taken = (SymT.UNBACKED_INT, SymT.UNBACKED_FLOAT)
    return any(symbol_is_type(s, taken) for s in getattr(size, "free_symbols", ()))


def is_symbolic(size: int | torch.SymInt) -> bool:
    """Whether a size of a fake tensor is no number, and has not been found to be one."""
    return not isinstance(size, int) and not size.node.expr.is_Integer


def as_dim(size: Size) -> Dim:
    """Return a size as a dimension of a type."""
    return size if isinstance(size, int) else _text(size)


@lru_cache(maxsize=4096)
def _text(size: sympy.Expr) -> str | None:
    text = str(size).replace(" ", "")
    return None if "," in text else text


def compute(b: Builder, size: Size, atoms: Mapping[sympy.Expr, Value]) -> Value:
    """Return a size as a one-element int64 vector computed in the graph.

    Args:
        b: builds the arithmetic.
        size: the size.
        atoms: values of the symbols, and of any larger expression that is at hand.

    Raises:
        UnsupportedError: for arithmetic that has no form here.
    """
    import sympy
    from torch.utils._sympy import functions

    if isinstance(size, int):
        return b.constant([size])
    if size in atoms:
        return atoms[size]
    if size.is_Integer:
        return b.constant([int(size)])

    def fold(name: str, arguments: Sequence[Any]) -> Value:
        total = compute(b, arguments[0], atoms)
        for argument in arguments[1:]:
            total = b.op(name, total, compute(b, argument, atoms))
        return total

    if isinstance(size, sympy.Add):
        return fold("Add", sorted(size.args, key=lambda a: bool(a.is_Integer)))
    if isinstance(size, sympy.Mul):
        return fold("Mul", sorted(size.args, key=lambda a: bool(a.is_Integer)))
    if isinstance(size, sympy.Pow) and size.exp.is_Integer and size.exp > 0:
        return fold("Mul", [size.base] * int(size.exp))
    if isinstance(size, (functions.FloorDiv, functions.CleanDiv)):
        # ONNX divides integers towards zero, which is floor where nothing is negative
        numerator, divisor = size.args
        if numerator.is_nonnegative is False or divisor.is_positive is False:
            raise UnsupportedError("E203", f"expected a division of sizes, got `{size}`")
        if numerator.is_nonnegative is None and numerator.could_extract_minus_sign():
            raise UnsupportedError("E203", f"expected a division of sizes, got `{size}`")
        return fold("Div", size.args)
    if isinstance(size, (functions.TruncToInt, functions.FloorToInt, functions.CeilToInt)):
        taken: Any = size.args[0]
        if taken in atoms:  # a number that Python has taken out of a tensor
            rounded = {functions.FloorToInt: "Floor", functions.CeilToInt: "Ceil"}.get(size.func)
            number = atoms[taken]
            return b.op("Cast", b.op(rounded, number) if rounded else number, to=onnx_dtype("int64"))
        if any(not s.is_integer for s in size.free_symbols):
            raise number_of_data()
    if isinstance(size, (functions.Mod, functions.PythonMod, sympy.Mod)):
        return fold("Mod", size.args)
    if isinstance(size, (functions.Max, sympy.Max)):
        return fold("Max", size.args)
    if isinstance(size, (functions.Min, sympy.Min)):
        return fold("Min", size.args)
    raise UnsupportedError(
        "E203",
        f"expected arithmetic on sizes (+, *, //, %), got `{size}`",
        hint="give --no-dynamic-batch for static shapes",
    )


def _whole(size: Any) -> Any:
    """A size with whole divisions for rounded quotients (math.ceil(n / 2), int(n * 0.5)) of sizes above 0."""
    from torch.utils._sympy import functions

    roundings = {functions.FloorToInt: 0, functions.TruncToInt: 0, functions.CeilToInt: 1}
    for found in size.atoms(*roundings):
        quotient = _quotient(found.args[0])
        if quotient is not None:
            a, b = quotient
            up = roundings[found.func]
            size = size.xreplace({found: functions.FloorDiv(a + up * (b - 1), b)})
    return size


def _quotient(real: Any) -> tuple[Any, Any] | None:
    """Return numerator and denominator of a number computed from sizes; None if its floor is open.

    A quotient of whole numbers below 2**52 that is no whole number rounds to none either, so that the last
    operation may round; all before it must be exact.
    """
    from torch.utils._sympy import functions

    if isinstance(real, (functions.IntTrueDiv, functions.FloatTrueDiv)):
        above, below = (_exact(a) for a in real.args)
        return None if above is None or below is None else (above[0] * below[1], above[1] * below[0])
    return _exact(real)


def _exact(real: Any) -> tuple[Any, int] | None:
    """Return numerator and power of two of an exact float number; None if that is unknown."""
    import sympy
    from torch.utils._sympy import functions

    if real.is_Float:
        above, below = float(real).as_integer_ratio()
        return (sympy.Integer(above), below) if below in _POWERS else None
    if isinstance(real, functions.ToFloat):
        return real.args[0], 1
    if isinstance(real, (functions.IntTrueDiv, functions.FloatTrueDiv)):
        found = _quotient(real)
        if found is None or not sympy.sympify(found[1]).is_Integer:
            return None
        return (found[0], int(found[1])) if int(found[1]) in _POWERS else None
    if isinstance(real, (sympy.Mul, sympy.Add)) and not real.is_integer:
        parts = [_exact(a) for a in real.args]
        if any(p is None for p in parts):
            return None
        whole, scale = sympy.Integer(isinstance(real, sympy.Mul)), 1
        for above, below in filter(None, parts):
            whole = whole * above if isinstance(real, sympy.Mul) else whole * below + above * scale
            scale *= below
        return (whole, scale) if scale in _POWERS else None
    return (real, 1) if real.is_integer else None


_POWERS = frozenset(2**i for i in range(17))
"""Denominators of which floats hold the quotients of sizes exactly."""


def _expression(value: object) -> Any:
    node = getattr(value, "node", None)
    if node is None:
        return value if isinstance(value, int) else int(value)  # type: ignore[call-overload]
    expression = node.expr
    return int(expression) if expression.is_Integer else expression
