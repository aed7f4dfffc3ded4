"""Functions of complex numbers, reductions and products of three operands, on real and imaginary parts."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .complex_numbers import (
    Argument,
    Complex,
    abs_,
    add,
    div,
    exp,
    multilinear,
    parts,
    reciprocal,
    table,
    times,
)
from .table import Inexpressible


def _is_null(x: Complex) -> Tensor:
    return (x.real == 0) & (x.imag == 0)


@table.of("aten.log.default")
def log(x: Complex) -> Complex:
    """Logarithm of the length, and the angle; near a length of 1 by what is missing to it."""
    a, b = torch.abs(x.real), torch.abs(x.imag)
    large, small = torch.maximum(a, b), torch.minimum(a, b)
    near = (large > 0.5) & (large < 2)
    over = torch.where(near, (large - 1) * (large + 1) + small * small, torch.zeros_like(large))
    return Complex(torch.where(near, torch.log1p(over) / 2, torch.log(abs_(x))), torch.atan2(x.imag, x.real))


@table.of("aten.log2.default")
def log2(x: Complex) -> Complex:
    """The same to the base 2."""
    found = log(x)
    return Complex(found.real / math.log(2), found.imag / math.log(2))


@table.of("aten.log10.default")
def log10(x: Complex) -> Complex:
    """The same to the base 10."""
    found = log(x)
    return Complex(found.real / math.log(10), found.imag / math.log(10))


@table.of("aten.log1p.default")
def log1p(x: Complex) -> Complex:
    """The logarithm of one more; of small numbers without the one."""
    small = torch.log1p(x.real * (2 + x.real) + x.imag * x.imag) / 2
    near = (torch.abs(x.real) < 0.5) & (torch.abs(x.imag) < 0.5)
    found = log(Complex(x.real + 1, x.imag))
    return Complex(torch.where(near, small, found.real), found.imag)


@table.of("aten.exp2.default")
def exp2(x: Complex) -> Complex:
    """Powers of 2."""
    return exp(Complex(x.real * math.log(2), x.imag * math.log(2)))


@table.of("aten.expm1.default")
def expm1(x: Complex) -> Complex:
    """Powers of e less one; of small numbers without the one."""
    half = torch.sin(x.imag / 2)
    return Complex(
        torch.expm1(x.real) * torch.cos(x.imag) - 2 * half * half, torch.exp(x.real) * torch.sin(x.imag)
    )


@table.of("aten.sqrt.default")
def sqrt(x: Complex) -> Complex:
    """The root with a real part of at least 0."""
    wide = torch.sqrt((abs_(x) + torch.abs(x.real)) / 2)
    narrow = torch.where(wide > 0, torch.abs(x.imag) / (2 * wide), torch.zeros_like(wide))
    right = x.real >= 0
    imag = torch.where(right, narrow, wide)
    return Complex(torch.where(right, wide, narrow), torch.where(x.imag < 0, -imag, imag))


@table.of("aten.rsqrt.default")
def rsqrt(x: Complex) -> Complex:
    """One over the root."""
    return reciprocal(sqrt(x))


@table.of("aten.sinh.default")
def sinh(x: Complex) -> Complex:
    """Hyperbolic sine."""
    return Complex(torch.sinh(x.real) * torch.cos(x.imag), torch.cosh(x.real) * torch.sin(x.imag))


@table.of("aten.cosh.default")
def cosh(x: Complex) -> Complex:
    """Hyperbolic cosine."""
    return Complex(torch.cosh(x.real) * torch.cos(x.imag), torch.sinh(x.real) * torch.sin(x.imag))


@table.of("aten.tanh.default")
def tanh(x: Complex) -> Complex:
    """Hyperbolic tangent, by powers of e that are at most 1."""
    length = torch.abs(x.real)
    small = torch.exp(-2 * length)
    left = torch.expm1(-2 * length)
    below = left * left + 4 * small * torch.cos(x.imag) ** 2
    real = -torch.expm1(-4 * length) / below
    imag = 4 * small * torch.sin(x.imag) * torch.cos(x.imag) / below
    return Complex(torch.where(x.real < 0, -real, real), imag)


@table.of("aten.sin.default")
def sin(x: Complex) -> Complex:
    """Sine."""
    return Complex(torch.sin(x.real) * torch.cosh(x.imag), torch.cos(x.real) * torch.sinh(x.imag))


@table.of("aten.cos.default")
def cos(x: Complex) -> Complex:
    """Cosine."""
    return Complex(torch.cos(x.real) * torch.cosh(x.imag), -torch.sin(x.real) * torch.sinh(x.imag))


@table.of("aten.tan.default")
def tan(x: Complex) -> Complex:
    """Tangent: a hyperbolic one of the number turned by a right angle."""
    found = tanh(Complex(-x.imag, x.real))
    return Complex(found.imag, -found.real)


@table.of("aten.sigmoid.default")
def sigmoid(x: Complex) -> Complex:
    """The logistic function, as a hyperbolic tangent."""
    found = tanh(Complex(x.real / 2, x.imag / 2))
    return Complex((found.real + 1) / 2, found.imag / 2)


@table.of("aten.silu.default")
def silu(x: Complex) -> Complex:
    """A number times its logistic function."""
    return times(x, sigmoid(x))


@table.of("aten.asinh.default")
def asinh(x: Complex) -> Complex:
    """Inverse of the hyperbolic sine."""
    square = times(x, x)
    return log(add(x, sqrt(Complex(square.real + 1, square.imag))))


@table.of("aten.acosh.default")
def acosh(x: Complex) -> Complex:
    """Inverse of the hyperbolic cosine."""
    above, below = Complex(x.real + 1, x.imag), Complex(x.real - 1, x.imag)
    return log(add(x, times(sqrt(above), sqrt(below))))


@table.of("aten.atanh.default")
def atanh(x: Complex) -> Complex:
    """Inverse of the hyperbolic tangent."""
    above, below = log1p(x), log1p(Complex(-x.real, -x.imag))
    return Complex((above.real - below.real) / 2, (above.imag - below.imag) / 2)


@table.of("aten.asin.default")
def asin(x: Complex) -> Complex:
    """Inverse of the sine, by the number turned by a right angle."""
    found = asinh(Complex(-x.imag, x.real))
    return Complex(found.imag, -found.real)


@table.of("aten.acos.default")
def acos(x: Complex) -> Complex:
    """Inverse of the cosine."""
    found = asin(x)
    return Complex(math.pi / 2 - found.real, -found.imag)


@table.of("aten.atan.default")
def atan(x: Complex) -> Complex:
    """Inverse of the tangent, by the number turned by a right angle."""
    found = atanh(Complex(-x.imag, x.real))
    return Complex(found.imag, -found.real)


@table.of("aten.sgn.default")
def sgn(x: Complex) -> Complex:
    """A number over its length; 0 where that is 0."""
    length = abs_(x)
    safe = torch.where(length > 0, length, torch.ones_like(length))
    return Complex(x.real / safe, x.imag / safe)


@table.of("aten.pow.Tensor_Scalar")
def pow_scalar(x: Complex, power: complex) -> Complex:
    """A power by products where it is a small whole number, else by length and angle."""
    if isinstance(power, complex) and power.imag:
        return pow_tensor(x, power)
    number = power.real
    if number == 0:
        return Complex(torch.ones_like(x.real), torch.zeros_like(x.real))
    if number == 0.5:
        return sqrt(x)
    if number == int(number) and abs(number) <= 8:
        found = x
        for digit in f"{int(abs(number)):b}"[1:]:
            found = times(found, found)
            found = times(found, x) if digit == "1" else found
        return reciprocal(found) if number < 0 else found
    length, turn = torch.pow(abs_(x), number), torch.atan2(x.imag, x.real) * number
    return Complex(length * torch.cos(turn), length * torch.sin(turn))


@table.of("aten.pow.Tensor_Tensor", "aten.pow.Scalar")
def pow_tensor(x: Argument, power: Argument) -> Complex:
    """The exponential of a logarithm times the power; 0 to a power above 0 is 0, to the power 0 one."""
    power = parts(power)
    if not isinstance(x, (Tensor, Complex)):
        like = power.real
        x = Complex(torch.full_like(like, complex(x).real), torch.full_like(like, complex(x).imag))
    x = parts(x)
    x = Complex(x.real, x.imag if isinstance(x.imag, Tensor) else torch.full_like(x.real, float(x.imag)))
    null = _is_null(x)
    safe = Complex(torch.where(null, torch.ones_like(x.real), x.real), x.imag)
    found = exp(times(log(safe), power))
    zero = torch.zeros_like(found.real)
    none = (power.real == 0) & (power.imag == 0)
    if not isinstance(none, Tensor):
        none = torch.full_like(null, bool(none))
    null = null & ~none
    return Complex(torch.where(null, zero, found.real), torch.where(null, zero, found.imag))


# -- products and sums -------------------------------------------------------------------------------


@table.of("aten.prod.default", "aten.prod.dim_int")
def prod(x: Complex, dim: int | None = None, keepdim: bool = False, *, dtype: Any = None) -> Complex:
    """A product along an axis, or of all."""
    del dtype
    if dim is None:
        x, dim = Complex(x.real.flatten(), x.imag.flatten()), 0
    rows = [Complex(a, b) for a, b in zip(x.real.unbind(dim), x.imag.unbind(dim), strict=True)]
    found = rows[0]
    for row in rows[1:]:
        found = times(found, row)
    return Complex(found.real.unsqueeze(dim), found.imag.unsqueeze(dim)) if keepdim else found


@table.of("aten.cumprod.default")
def cumprod(x: Complex, dim: int, *, dtype: Any = None) -> Complex:
    """Products of all up to each along an axis."""
    del dtype
    rows = [Complex(a, b) for a, b in zip(x.real.unbind(dim), x.imag.unbind(dim), strict=True)]
    found = list(itertools.accumulate(rows, times))
    return Complex(torch.stack([f.real for f in found], dim), torch.stack([f.imag for f in found], dim))


def _of_lengths(target: Any) -> Callable[..., Tensor]:
    def run(x: Complex, *args: Any, dtype: Any = None, **kwargs: Any) -> Tensor:
        typed = {} if dtype is None else {"dtype": dtype.to_real()}
        return target(abs_(x), *args, **kwargs, **typed)

    return run


def _of_both(target: Any) -> Callable[..., Tensor]:
    def run(x: Complex, *args: Any, **kwargs: Any) -> Tensor:
        return target(x.real, *args, **kwargs) + target(x.imag, *args, **kwargs)

    return run


def _of_not_null(target: Any) -> Callable[..., Tensor]:
    def run(x: Complex, *args: Any, **kwargs: Any) -> Tensor:
        return target(~_is_null(x), *args, **kwargs)

    return run


def _overloads(name: str) -> list[tuple[str, Any]]:
    """Return the overloads of an operator that take a complex tensor and return their result.

    Those whose element type must be given are left out: torch refuses each type for complex numbers.
    """
    packet: Any = getattr(torch.ops.aten, name)
    found = [(f"aten.{name}.{o}", getattr(packet, o)) for o in packet.overloads() if "out" not in o]
    return [(full, each) for full, each in found if _takes_complex(each._schema.arguments)]


def _takes_complex(formals: Any) -> bool:
    typed = any(each.name == "dtype" and not each.has_default_value() for each in formals)
    return str(formals[0].type) == "Tensor" and not typed


for _name, _run in (
    *((n, _of_lengths) for n in ("norm", "linalg_vector_norm", "linalg_norm", "frobenius_norm")),
    ("var", _of_both),
    *((n, _of_not_null) for n in ("any", "all", "count_nonzero", "nonzero", "logical_not")),
):
    for _full, _target in _overloads(_name):
        table.of(_full)(_run(_target))


@table.of(*(full for full, _ in _overloads("std")))
def std(x: Complex, *args: Any, **kwargs: Any) -> Tensor:
    """Deviations from the mean, both parts together."""
    return torch.sqrt(torch.var(x.real, *args, **kwargs) + torch.var(x.imag, *args, **kwargs))


@table.of("aten.isnan.default")
def isnan(x: Complex) -> Tensor:
    """Whether a part is none."""
    return torch.isnan(x.real) | torch.isnan(x.imag)


@table.of("aten.isinf.default")
def isinf(x: Complex) -> Tensor:
    """Whether a part is infinite."""
    return torch.isinf(x.real) | torch.isinf(x.imag)


@table.of("aten.isfinite.default")
def isfinite(x: Complex) -> Tensor:
    """Whether both parts are finite."""
    return torch.isfinite(x.real) & torch.isfinite(x.imag)


@table.of("aten.ne.Tensor", "aten.ne.Scalar")
def ne(x: Argument, y: Argument) -> Tensor:
    """Whether a part differs."""
    x, y = parts(x), parts(y)
    return (x.real != y.real) | (x.imag != y.imag)


@table.of("aten.adjoint.default", "aten.mH.default", "aten.matrix_H.default")
def adjoint(x: Complex) -> Complex:
    """A transposed matrix, the imaginary part negated."""
    return Complex(x.real.transpose(-2, -1), -x.imag.transpose(-2, -1))


@table.of("aten.expand_as.default", "aten.view_as.default", "aten.reshape_as.default")
def shaped_as(x: Tensor | Complex, other: Tensor | Complex) -> Tensor | Complex:
    """A tensor with the shape of another; whether it is complex is its own affair."""
    shape = other.real.shape if isinstance(other, Complex) else other.shape
    if isinstance(x, Tensor):
        return torch.broadcast_to(x, shape) if x.numel() != shape.numel() else x.reshape(shape)
    return Complex(
        *(
            torch.broadcast_to(p, shape) if p.numel() != shape.numel() else p.reshape(shape)
            for p in (x.real, x.imag)
        )
    )


def _as_real(x: Complex) -> Tensor:
    """A matrix twice as high and wide whose products are those of complex matrices."""
    above, below = torch.cat([x.real, -x.imag], -1), torch.cat([x.imag, x.real], -1)
    return torch.cat([above, below], -2)


@table.of("aten.linalg_inv.default", "aten.inverse.default")
def inverse(x: Complex) -> Complex:
    """An inverse matrix, by that of a real one."""
    size = x.real.shape[-1]
    found = torch.linalg.inv(_as_real(x))
    return Complex(found[..., :size, :size], found[..., size:, :size])


@table.of("aten.linalg_solve.default")
def solve(x: Argument, y: Argument, *, left: bool = True) -> Complex:
    """The solution of linear equations, by that of real ones."""
    x, y = parts(x), parts(y)
    if not left or y.real.dim() != x.real.dim() or not isinstance(x.imag, Tensor):
        raise Inexpressible("it solves complex equations of vectors, or from the right")
    size = x.real.shape[-1]
    imag = y.imag if isinstance(y.imag, Tensor) else torch.zeros_like(y.real)
    found = torch.linalg.solve(_as_real(x), torch.cat([y.real, imag], -2))
    return Complex(found[..., :size, :], found[..., size:, :])


@table.of("aten.vdot.default")
def vdot(x: Complex, y: Argument) -> Complex:
    """The product of two vectors, the imaginary part of the first negated."""
    return _sum(times(Complex(x.real, -x.imag), y), 0)


@table.of("aten.linalg_vecdot.default")
def vecdot(x: Argument, y: Argument, *, dim: int = -1) -> Complex:
    """The same along an axis."""
    x = parts(x)
    return _sum(times(Complex(x.real, -x.imag), y), dim)


def _sum(x: Complex, dim: int) -> Complex:
    return Complex(x.real.sum(dim), x.imag.sum(dim))


@table.of("aten.masked_fill.Scalar", "aten.masked_fill.Tensor")
def masked_fill(x: Argument, mask: Tensor, value: Argument) -> Complex:
    """A number in place of those that a mask names."""
    x, value = parts(x), parts(value)
    return Complex(x.real.masked_fill(mask, value.real), x.imag.masked_fill(mask, value.imag))


@table.of("aten.full.default", "aten.new_full.default", "aten.full_like.default")
def full(*args: Any, dtype: torch.dtype | None = None, **options: Any) -> Complex:
    """A tensor of one number."""
    del options
    *before, value = args
    number = complex(value.real, value.imag) if isinstance(value, Complex) else complex(value)
    like = before[0]
    shape = like.real.shape if isinstance(like, Complex) else like
    if len(before) == 2:
        shape = before[1]
    real = dtype.to_real() if dtype is not None else torch.get_default_dtype()
    if dtype is None and isinstance(like, Complex):
        real = like.real.dtype
    return Complex(*(torch.full(list(shape), v, dtype=real) for v in (number.real, number.imag)))


@table.of("aten.ones_like.default")
def ones_like(x: Complex, *, dtype: Any = None, **_: Any) -> Complex:
    """Ones."""
    del dtype
    return Complex(torch.ones_like(x.real), torch.zeros_like(x.real))


def _summed_product(y: Tensor, z: Tensor) -> Tensor:
    return torch.matmul(y, z).sum(0)


@table.of("aten.addbmm.default")
def addbmm(x: Argument, y: Argument, z: Argument, *, beta: complex = 1, alpha: complex = 1) -> Complex:
    """A tensor, by a factor, and the sum of a batch of products, by another."""
    return addmm(x, y, z, beta=beta, alpha=alpha, multiply=_summed_product)


@table.of("aten.addmm.default", "aten.addmv.default", "aten.baddbmm.default")
def addmm(
    x: Argument,
    y: Argument,
    z: Argument,
    *,
    beta: complex = 1,
    alpha: complex = 1,
    multiply: Callable[..., Tensor] = torch.matmul,
) -> Complex:
    """A tensor, by a factor, and a product of matrices, by another."""
    product = multilinear(multiply, (y, z), {})
    found = product if alpha == 1 else times(product, alpha)
    return add(x if beta == 1 else times(x, beta), found)


@table.of("aten.addcmul.default")
def addcmul(x: Argument, y: Argument, z: Argument, *, value: complex = 1) -> Complex:
    """A tensor and a product."""
    return add(x, times(y, z), value)


@table.of("aten.addcdiv.default")
def addcdiv(x: Argument, y: Argument, z: Argument, *, value: complex = 1) -> Complex:
    """A tensor and a quotient."""
    return add(x, div(y, z), value)


@table.of("aten.lerp.Scalar", "aten.lerp.Tensor")
def lerp(x: Argument, y: Argument, weight: Argument) -> Complex:
    """A number between two."""
    x, y = parts(x), parts(y)
    return add(x, times(Complex(y.real - x.real, y.imag - x.imag), weight))


def _with_bias(target: Any) -> Callable[..., Complex]:
    def run(
        x: Argument, weight: Argument, bias: Argument | None = None, *args: Any, **kwargs: Any
    ) -> Complex:
        found = multilinear(lambda a, b: target(a, b, None, *args, **kwargs), (x, weight), {})
        if bias is None:
            return found
        if target is not torch.ops.aten.linear.default:
            bias = parts(bias)
            shape = [-1] + [1] * (found.real.dim() - 2)
            imag = bias.imag.reshape(shape) if isinstance(bias.imag, Tensor) else bias.imag
            bias = Complex(bias.real.reshape(shape), imag)
        return add(found, bias)

    return run


for _full in ("linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d"):
    table.of(f"aten.{_full}.default")(_with_bias(getattr(torch.ops.aten, _full).default))
for _full in ("conv_transpose2d", "conv_transpose3d"):
    table.of(f"aten.{_full}.input")(_with_bias(getattr(torch.ops.aten, _full).input))
