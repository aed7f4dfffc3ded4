"""Functions of complex numbers, reductions and products of three operands, on real and imaginary parts."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ...complex_numbers import Complex, parts
from .complex_numbers import Argument, is_null, multilinear, polar, scaled, table
from .table import Inexpressible


def _abs(x: Complex) -> Tensor:
    """Return lengths, free of overflow where the parts are large."""
    a, b = torch.abs(x.real), torch.abs(x.imag)
    large = torch.maximum(a, b)
    scale = torch.where(large > 0, large, torch.ones_like(large))
    return scale * torch.sqrt((x.real / scale) ** 2 + (x.imag / scale) ** 2)


def _angle(x: Complex) -> Tensor:
    return torch.atan2(x.imag, x.real)


def _exp(x: Complex) -> Complex:
    return polar(torch.exp(x.real), x.imag)


def _log(x: Complex) -> Complex:
    """Return the logarithm of the length, and the angle; near a length of 1 by what is missing to it."""
    a, b = torch.abs(x.real), torch.abs(x.imag)
    large, small = torch.maximum(a, b), torch.minimum(a, b)
    near = (large > 0.5) & (large < 2)
    over = torch.where(near, (large - 1) * (large + 1) + small * small, torch.zeros_like(large))
    return Complex(torch.where(near, torch.log1p(over) / 2, torch.log(_abs(x))), _angle(x))


def _log1p(x: Complex) -> Complex:
    """Return the logarithm of one more; of small numbers without the one."""
    small = torch.log1p(x.real * (2 + x.real) + x.imag * x.imag) / 2
    near = (torch.abs(x.real) < 0.5) & (torch.abs(x.imag) < 0.5)
    found = _log(x + 1)
    return Complex(torch.where(near, small, found.real), found.imag)


def _expm1(x: Complex) -> Complex:
    """Return powers of e less one; of small numbers without the one."""
    half = torch.sin(x.imag / 2)
    real = torch.expm1(x.real) * torch.cos(x.imag) - 2 * half * half
    return Complex(real, torch.exp(x.real) * torch.sin(x.imag))


def _reciprocal(x: Complex) -> Complex:
    length = x.real * x.real + x.imag * x.imag
    return Complex(x.real / length, -x.imag / length)


def _sqrt(x: Complex) -> Complex:
    """Return the root with a real part of at least 0."""
    wide = torch.sqrt((_abs(x) + torch.abs(x.real)) / 2)
    narrow = torch.where(wide > 0, torch.abs(x.imag) / (2 * wide), torch.zeros_like(wide))
    right = x.real >= 0
    imag = torch.where(right, narrow, wide)
    return Complex(torch.where(right, wide, narrow), torch.where(x.imag < 0, -imag, imag))


def _tanh(x: Complex) -> Complex:
    """Return hyperbolic tangents, by powers of e that are at most 1."""
    length = torch.abs(x.real)
    small = torch.exp(-2 * length)
    left = torch.expm1(-2 * length)
    below = left * left + 4 * small * torch.cos(x.imag) ** 2
    real = -torch.expm1(-4 * length) / below
    imag = 4 * small * torch.sin(x.imag) * torch.cos(x.imag) / below
    return Complex(torch.where(x.real < 0, -real, real), imag)


def _sigmoid(x: Complex) -> Complex:
    found = _tanh(x / 2)
    return Complex((found.real + 1) / 2, found.imag / 2)


def _asinh(x: Complex) -> Complex:
    return _log(x + _sqrt(x * x + 1))


def _atanh(x: Complex) -> Complex:
    return (_log1p(x) - _log1p(Complex(-x.real, -x.imag))) / 2


def _asin(x: Complex) -> Complex:
    return _turned(_asinh)(x)


def _turned(function: Callable[[Complex], Complex]) -> Callable[[Complex], Complex]:
    """Return a circular function: the hyperbolic one of the number turned by a right angle."""

    def run(x: Complex) -> Complex:
        found = function(Complex(-x.imag, x.real))
        return Complex(found.imag, -found.real)

    return run


def _acos(x: Complex) -> Complex:
    found = _asin(x)
    return Complex(math.pi / 2 - found.real, -found.imag)


def _sgn(x: Complex) -> Complex:
    """Return numbers over their lengths; 0 where that is 0."""
    length = _abs(x)
    return x / torch.where(length > 0, length, torch.ones_like(length))


_FUNCTIONS: dict[str, Callable[[Complex], Any]] = {
    "real": lambda x: x.real,
    "imag": lambda x: x.imag,
    **dict.fromkeys(("_conj", "_conj_physical"), Complex.conj),
    "abs": _abs,
    "angle": _angle,
    "reciprocal": _reciprocal,
    "sgn": _sgn,
    "exp": _exp,
    "exp2": lambda x: _exp(x * math.log(2)),
    "expm1": _expm1,
    "log": _log,
    "log2": lambda x: _log(x) / math.log(2),
    "log10": lambda x: _log(x) / math.log(10),
    "log1p": _log1p,
    "sqrt": _sqrt,
    "rsqrt": lambda x: _reciprocal(_sqrt(x)),
    "sinh": lambda x: Complex(torch.sinh(x.real) * torch.cos(x.imag), torch.cosh(x.real) * torch.sin(x.imag)),
    "cosh": lambda x: Complex(torch.cosh(x.real) * torch.cos(x.imag), torch.sinh(x.real) * torch.sin(x.imag)),
    "tanh": _tanh,
    "sin": lambda x: Complex(torch.sin(x.real) * torch.cosh(x.imag), torch.cos(x.real) * torch.sinh(x.imag)),
    "cos": lambda x: Complex(torch.cos(x.real) * torch.cosh(x.imag), -torch.sin(x.real) * torch.sinh(x.imag)),
    "tan": _turned(_tanh),
    "asinh": _asinh,
    "acosh": lambda x: _log(x + _sqrt(x + 1) * _sqrt(x - 1)),
    "atanh": _atanh,
    "asin": _asin,
    "acos": _acos,
    "atan": _turned(_atanh),
    "sigmoid": _sigmoid,
    "isnan": lambda x: torch.isnan(x.real) | torch.isnan(x.imag),
    "isinf": lambda x: torch.isinf(x.real) | torch.isinf(x.imag),
    "isfinite": lambda x: torch.isfinite(x.real) & torch.isfinite(x.imag),
    "nonzero": lambda x: torch.ops.aten.nonzero.default(~is_null(x)),
}
for _name, _function in _FUNCTIONS.items():
    table.op(f"aten.{_name}.default")(_function)


@table.op("aten.eq.Tensor", "aten.eq.Scalar")
def eq(x: Argument, y: Argument) -> Tensor:
    """Whether both parts are equal."""
    x, y = parts(x), parts(y)
    return (x.real == y.real) & (x.imag == y.imag)


@table.op("aten.ne.Tensor", "aten.ne.Scalar")
def ne(x: Argument, y: Argument) -> Tensor:
    """Whether a part differs."""
    x, y = parts(x), parts(y)
    return (x.real != y.real) | (x.imag != y.imag)


@table.op("aten.pow.Tensor_Scalar")
def pow_scalar(x: Complex, power: complex) -> Complex:
    """Return a power by products where it is a small whole number, else by length and angle."""
    if isinstance(power, complex) and power.imag:
        return pow_tensor(x, power)
    number = power.real
    if number == 0:
        return Complex(torch.ones_like(x.real), torch.zeros_like(x.real))
    if number == 0.5:
        return _sqrt(x)
    if number == int(number) and abs(number) <= 8:
        found = x
        for digit in f"{int(abs(number)):b}"[1:]:
            found = found * found
            found = found * x if digit == "1" else found
        return _reciprocal(found) if number < 0 else found
    length, turn = torch.pow(_abs(x), number), _angle(x) * number
    return Complex(length * torch.cos(turn), length * torch.sin(turn))


@table.op("aten.pow.Tensor_Tensor", "aten.pow.Scalar")
def pow_tensor(x: Argument, power: Argument) -> Complex:
    """The exponential of a logarithm times the power; 0 to a power above 0 is 0, to the power 0 one."""
    power = parts(power)
    if not isinstance(x, (Tensor, Complex)):
        like = power.real
        x = Complex(torch.full_like(like, complex(x).real), torch.full_like(like, complex(x).imag))
    x = parts(x)
    x = Complex(x.real, x.imag if isinstance(x.imag, Tensor) else torch.full_like(x.real, float(x.imag)))
    null = is_null(x)
    safe = Complex(torch.where(null, torch.ones_like(x.real), x.real), x.imag)
    found = _exp(_log(safe) * power)
    zero = torch.zeros_like(found.real)
    none = (power.real == 0) & (power.imag == 0)
    if not isinstance(none, Tensor):
        none = torch.full_like(null, bool(none))
    null = null & ~none
    return Complex(torch.where(null, zero, found.real), torch.where(null, zero, found.imag))


# -- products and sums -------------------------------------------------------------------------------


@table.op("aten.prod.default", "aten.prod.dim_int")
def prod(x: Complex, dim: int | None = None, keepdim: bool = False, *, dtype: Any = None) -> Complex:
    """Return a product along an axis, or of all."""
    del dtype
    if dim is None:
        x, dim = Complex(x.real.flatten(), x.imag.flatten()), 0
    rows = [Complex(a, b) for a, b in zip(x.real.unbind(dim), x.imag.unbind(dim), strict=True)]
    found = math.prod(rows[1:], start=rows[0])
    return Complex(found.real.unsqueeze(dim), found.imag.unsqueeze(dim)) if keepdim else found


@table.op("aten.cumprod.default")
def cumprod(x: Complex, dim: int, *, dtype: Any = None) -> Complex:
    """Return products of all up to each along an axis."""
    del dtype
    rows = [Complex(a, b) for a, b in zip(x.real.unbind(dim), x.imag.unbind(dim), strict=True)]
    found = list(itertools.accumulate(rows, operator.mul))
    return Complex(torch.stack([f.real for f in found], dim), torch.stack([f.imag for f in found], dim))


@table.op("aten.linalg_vector_norm.default")
def vector_norm(x: Complex, *args: Any, dtype: Any = None, **kwargs: Any) -> Tensor:
    """Return the norm of the lengths."""
    typed = {} if dtype is None else {"dtype": dtype.to_real()}
    return torch.ops.aten.linalg_vector_norm.default(_abs(x), *args, **kwargs, **typed)


@table.op("aten.var.correction")
def variance(x: Complex, *args: Any, **kwargs: Any) -> Tensor:
    """Return the variances of both parts together."""
    return sum(torch.ops.aten.var.correction(part, *args, **kwargs) for part in (x.real, x.imag))  # type: ignore


def _as_real(x: Complex) -> Tensor:
    """Return a matrix twice as high and wide whose products are those of complex matrices."""
    above, below = torch.cat([x.real, -x.imag], -1), torch.cat([x.imag, x.real], -1)
    return torch.cat([above, below], -2)


@table.op("aten.linalg_inv.default", "aten.inverse.default")
def inverse(x: Complex) -> Complex:
    """Return an inverse matrix, by that of a real one."""
    size = x.real.shape[-1]
    found = torch.linalg.inv(_as_real(x))
    return Complex(found[..., :size, :size], found[..., size:, :size])


@table.op("aten.linalg_solve.default")
def solve(x: Argument, y: Argument, *, left: bool = True) -> Complex:
    """Return the solution of linear equations, by that of real ones."""
    x, y = parts(x), parts(y)
    if not left or y.real.dim() != x.real.dim() or not isinstance(x.imag, Tensor):
        raise Inexpressible("it solves complex equations of vectors, or from the right")
    size = x.real.shape[-1]
    imag = y.imag if isinstance(y.imag, Tensor) else torch.zeros_like(y.real)
    found = torch.linalg.solve(_as_real(x), torch.cat([y.real, imag], -2))
    return Complex(found[..., :size, :], found[..., size:, :])


@table.op("aten.masked_fill.Scalar")
def masked_fill(x: Argument, mask: Tensor, value: Argument) -> Complex:
    """Return a number in place of those that a mask names."""
    x, value = parts(x), parts(value)
    return Complex(x.real.masked_fill(mask, value.real), x.imag.masked_fill(mask, value.imag))


@table.op("aten.full.default", "aten.full_like.default")
def full(like: Any, value: Argument, *, dtype: torch.dtype | None = None, **options: Any) -> Complex:
    """Return a tensor of one number."""
    del options
    shape = like.real.shape if isinstance(like, Complex) else like
    real = like.real.dtype if isinstance(like, Complex) else torch.get_default_dtype()
    real, number = real if dtype is None else dtype.to_real(), parts(value)
    return Complex(*(torch.full(list(shape), v, dtype=real) for v in (number.real, number.imag)))


@table.op("aten.addbmm.default")
def addbmm(x: Argument, y: Argument, z: Argument, *, beta: complex = 1, alpha: complex = 1) -> Complex:
    """Return a tensor, by a factor, and the sum of a batch of products, by another."""
    product = multilinear(lambda y, z: torch.matmul(y, z).sum(0), (y, z), {})
    return scaled(x, beta) + scaled(product, alpha)


@table.op("aten.lerp.Scalar", "aten.lerp.Tensor")
def lerp(x: Argument, y: Argument, weight: Argument) -> Complex:
    """Return a number between two."""
    return parts(x) + (parts(y) - x) * weight


def _with_bias(target: Any) -> Callable[..., Complex]:
    def run(
        x: Argument, weight: Argument, bias: Argument | None = None, *args: Any, **kwargs: Any
    ) -> Complex:
        found = multilinear(lambda a, b: target(a, b, None, *args, **kwargs), (x, weight), {})
        if bias is None:
            return found
        if target is torch.ops.aten.linear.default:
            return found + bias
        shape = [-1] + [1] * (found.real.dim() - 2)
        real, imag = parts(bias).real.reshape(shape), parts(bias).imag
        return found + Complex(real, imag.reshape(shape) if isinstance(imag, Tensor) else imag)

    return run


for _name in (
    *(f"{kind}.default" for kind in ("linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d")),
    *(f"{kind}.input" for kind in ("conv_transpose2d", "conv_transpose3d")),
):
    table.op(f"aten.{_name}")(_with_bias(operator.attrgetter(_name)(torch.ops.aten)))
