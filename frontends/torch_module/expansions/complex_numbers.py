"""Operators on complex tensors, each a pair of real ones, by operators on real tensors.

Torch's alone: MXNet has no complex numbers, and the MindSpore frontend refuses them. Torch's own
decompositions end in operators on complex tensors again.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import Tensor

from ..nodes import functional_name
from .table import Expansions, Inexpressible

table = Expansions()


@dataclass(frozen=True, slots=True)
class Complex:
    """A complex tensor, or number, as its real and its imaginary part."""

    real: Any
    imag: Any


Argument = Tensor | Complex | complex
"""What an operator on complex tensors is given."""

BY_PARTS = frozenset(
    (
        *("_unsafe_view", "alias", "cat", "chunk", "clone", "contiguous", "cumsum", "detach"),
        *("diagonal", "diff", "expand", "flatten", "flip", "gather", "index"),
        *("index_select", "lift_fresh_copy", "mT", "masked_select", "mean", "movedim"),
        *("narrow", "neg", "permute", "positive", "repeat", "reshape", "resolve_neg", "roll", "select"),
        *("slice", "split", "split_with_sizes", "squeeze", "stack", "sum", "swapaxes", "t"),
        *("tensor_split", "tile", "trace", "transpose", "tril", "triu", "unbind", "unflatten"),
        *("unfold", "unsqueeze", "view", "where", "zeros_like"),
        *("diagonal_scatter", "select_scatter", "slice_scatter", "index_put", "index_add", "index_copy"),
        *("scatter", "scatter_add", "masked_scatter", "take", "take_along_dim", "diag", "diag_embed"),
        *("repeat_interleave", "rot90", "fliplr", "flipud", "ravel", "moveaxis", "swapdims", "concat"),
        *("concatenate", "hstack", "vstack", "dstack", "column_stack", "broadcast_to", "meshgrid"),
        *("block_diag", "pixel_shuffle", "pixel_unshuffle", "fft_fftshift", "fft_ifftshift", "nan_to_num"),
        *("nansum", "view_copy", "expand_copy", "as_strided", "squeeze_copy", "unsqueeze_copy"),
    )
)
"""Operators that do to the real and to the imaginary part what they do to a real tensor."""

PRODUCTS = frozenset(
    ("matmul", "bmm", "mm", "mv", "dot", "einsum", "outer", "ger", "inner", "tensordot", "kron")
)
"""Operators that are linear in each of their tensors."""


def expansion(target: Any) -> Callable[..., Any] | None:
    """An operator as a function whose arguments and results are `Complex` where torch's are complex."""
    name = str(target) if str(target) in table.rows else functional_name(target) or str(target)
    namespace, base, overload = [*name.split("."), "", ""][:3]
    if name in table.rows:
        return table.rows[name]
    if namespace != "aten":
        return None
    function = getattr(getattr(torch.ops.aten, base), overload)
    if base in BY_PARTS:
        return lambda *args, **kwargs: _by_parts(function, args, kwargs)
    if base in PRODUCTS:
        return lambda *args, **kwargs: multilinear(function, args, kwargs)
    return None


def _by_parts(target: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """An operator once on all real and once on all imaginary parts."""
    if any(a.name == "value" and str(a.type) == "number" for a in target._schema.arguments):
        raise Inexpressible("it writes a number into complex ones")
    leaves, spec = pytree.tree_flatten((list(args), kwargs))
    wide = [
        Complex(v, torch.zeros_like(v)) if isinstance(v, Tensor) and v.is_floating_point() else v
        for v in leaves
    ]
    found = []
    for part in ("real", "imag"):
        given = [getattr(v, part) if isinstance(v, Complex) else v for v in wide]
        own, keywords = pytree.tree_unflatten(given, spec)
        found.append(target(*own, **keywords))
    if isinstance(found[0], (list, tuple)):
        return [Complex(a, b) for a, b in zip(*found, strict=True)]
    return Complex(*found)


def multilinear(target: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Complex:
    """A product that is linear in each of its tensors, by those of their parts.

    Raises:
        Inexpressible: for more than six complex tensors, whose product has more than 64 terms.
    """
    leaves, spec = pytree.tree_flatten((list(args), kwargs))
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Complex)]
    if len(places) > 6:
        raise Inexpressible(f"it multiplies {len(places)} complex tensors")
    sums: dict[int, Tensor | None] = {0: None, 1: None}
    for choice in itertools.product((0, 1), repeat=len(places)):
        given = list(leaves)
        for place, imag in zip(places, choice, strict=True):
            given[place] = leaves[place].imag if imag else leaves[place].real
        own, keywords = pytree.tree_unflatten(given, spec)
        term, turns = target(*own, **keywords), sum(choice)
        before = sums[turns % 2]
        negative = turns % 4 >= 2
        if before is None:
            sums[turns % 2] = -term if negative else term
        else:
            sums[turns % 2] = before - term if negative else before + term
    real, imag = sums[0], sums[1]
    assert real is not None
    return Complex(real, torch.zeros_like(real) if imag is None else imag)


def parts(x: Argument) -> Complex:
    """The parts of a tensor or number that may be real, whose imaginary part is then the number 0."""
    if isinstance(x, Complex):
        return x
    return Complex(x, 0) if isinstance(x, Tensor) else Complex(x.real, x.imag)


@table.of("aten.constant_pad_nd.default")
def pad_with(x: Complex, places: Sequence[int], value: complex = 0) -> Complex:
    """A tensor with a number around it."""
    number = complex(value)
    pairs = (x.real, number.real), (x.imag, number.imag)
    return Complex(*(torch.ops.aten.pad.default(t, places, "constant", n) for t, n in pairs))


@table.of("aten.pad.default")
def pad(x: Complex, places: Sequence[int], mode: str = "constant", value: complex | None = None) -> Complex:
    """A tensor with a number, or with its own elements, around it."""
    if mode == "constant":
        return pad_with(x, places, value or 0)
    return Complex(*(torch.ops.aten.pad.default(t, places, mode) for t in (x.real, x.imag)))


@table.of("aten.copy_.default", "aten.copy.default")
def copy(x: Complex, source: Argument, non_blocking: bool = False) -> Complex:
    """What is written over all of a tensor, spread to its shape."""
    del non_blocking
    source = parts(source)
    imag = source.imag if isinstance(source.imag, Tensor) else torch.zeros_like(source.real)
    return Complex(*(torch.ops.aten.copy.default(x.real, t) for t in (source.real, imag)))


def _filled(target: Any, *args: Any, dtype: torch.dtype | None = None, **options: Any) -> Complex | Tensor:
    """A new tensor: of zeros and ones, the imaginary part is zeros."""
    del options
    *like, size = (a.real if isinstance(a, Complex) else a for a in args)
    if dtype is not None and not dtype.is_complex:
        return target(*like, size, dtype=dtype)
    real = like[0].dtype if dtype is None else dtype.to_real()
    return Complex(target(*like, size, dtype=real), torch.ops.aten.zeros.default(size, dtype=real))


for _name in (
    "zeros.default",
    "ones.default",
    "empty.memory_format",
    "new_zeros.default",
    "new_ones.default",
):
    _target: Any = operator.attrgetter(_name)(torch.ops.aten)
    table.of(f"aten.{_name}")(partial(_filled, _target))


@table.of("aten.add.Tensor", "aten.add.Scalar")
def add(x: Argument, y: Argument, alpha: Argument = 1) -> Complex:
    """A sum, the second term by a factor."""
    x, y = parts(x), parts(y if alpha == 1 else times(y, alpha))
    return Complex(x.real + y.real, x.imag + y.imag)


@table.of("aten.sub.Tensor", "aten.sub.Scalar")
def sub(x: Argument, y: Argument, alpha: Argument = 1) -> Complex:
    """A difference, the second term by a factor."""
    x, y = parts(x), parts(y if alpha == 1 else times(y, alpha))
    return Complex(x.real - y.real, x.imag - y.imag)


@table.of("aten.rsub.Tensor", "aten.rsub.Scalar")
def rsub(x: Argument, y: Argument, alpha: Argument = 1) -> Complex:
    """The difference the other way round."""
    return sub(y, x, alpha)


@table.of("aten.mul.Tensor", "aten.mul.Scalar", "aten.multiply.Tensor", "aten.multiply.Scalar")
def times(x: Argument, y: Argument) -> Complex:
    """A product."""
    x, y = parts(x), parts(y)
    if _is_zero(x.imag) or _is_zero(y.imag):
        x, y = (y, x) if _is_zero(x.imag) else (x, y)
        return Complex(x.real * y.real, x.imag * y.real)
    return Complex(x.real * y.real - x.imag * y.imag, x.real * y.imag + x.imag * y.real)


def _is_zero(imag: Any) -> bool:
    return isinstance(imag, (int, float)) and imag == 0


@table.of("aten.view_as_complex.default", "aten.view_as_complex_copy.default")
def view_as_complex(x: Tensor) -> Complex:
    """The last axis holds both parts."""
    return Complex(x[..., 0], x[..., 1])


@table.of("aten.view_as_real.default", "aten.view_as_real_copy.default")
def view_as_real(x: Complex) -> Tensor:
    """Both parts on a last axis."""
    return torch.stack([x.real, x.imag], -1)


@table.of("aten.complex.default")
def complex_(real: Tensor, imag: Tensor) -> Complex:
    """A complex tensor of its parts."""
    return Complex(*torch.broadcast_tensors(real, imag))


@table.of("aten.polar.default")
def polar(length: Tensor, angle: Tensor) -> Complex:
    """A complex tensor of lengths and angles."""
    return Complex(length * torch.cos(angle), length * torch.sin(angle))


@table.of("aten.real.default")
def real(x: Complex) -> Tensor:
    """The real part."""
    return x.real


@table.of("aten.imag.default")
def imag(x: Complex) -> Tensor:
    """The imaginary part."""
    return x.imag


@table.of(
    "aten.conj.default", "aten._conj.default", "aten.conj_physical.default", "aten._conj_physical.default"
)
def conj(x: Complex) -> Complex:
    """The imaginary part negated."""
    return Complex(x.real, -x.imag)


@table.of("aten.resolve_conj.default")
def resolve_conj(x: Complex) -> Complex:
    """The same numbers, whatever the memory."""
    return x


@table.of("aten.abs.default", "aten.absolute.default")
def abs_(x: Complex) -> Tensor:
    """Lengths, free of overflow where the parts are large."""
    a, b = torch.abs(x.real), torch.abs(x.imag)
    large = torch.maximum(a, b)
    scale = torch.where(large > 0, large, torch.ones_like(large))
    return scale * torch.sqrt((x.real / scale) ** 2 + (x.imag / scale) ** 2)


@table.of("aten.angle.default")
def angle(x: Complex) -> Tensor:
    """Angles from the positive real axis."""
    return torch.atan2(x.imag, x.real)


@table.of("aten.exp.default")
def exp(x: Complex) -> Complex:
    """Lengths and angles from the parts."""
    return polar(torch.exp(x.real), x.imag)


@table.of("aten.div.Tensor", "aten.true_divide.Tensor", "aten.divide.Tensor")
def div(x: Argument, y: Argument) -> Complex:
    """A quotient."""
    x, y = parts(x), parts(y)
    if _is_zero(y.imag):
        return Complex(x.real / y.real, x.imag / y.real)
    length = y.real * y.real + y.imag * y.imag
    a = x.real * y.real + x.imag * y.imag
    b = x.imag * y.real - x.real * y.imag
    return Complex(a / length, b / length)


@table.of("aten.reciprocal.default")
def reciprocal(x: Complex) -> Complex:
    """One over each number."""
    length = x.real * x.real + x.imag * x.imag
    return Complex(x.real / length, -x.imag / length)


@table.of("aten.square.default")
def square(x: Complex) -> Complex:
    """Each number times itself."""
    return Complex(x.real * x.real - x.imag * x.imag, 2 * x.real * x.imag)


@table.of(
    "aten.to.dtype", "aten._to_copy.default", "aten.to.dtype_layout", "aten.to.device", "aten.type_as.default"
)
def to(x: Argument, *args: Any, **kwargs: Any) -> Argument:
    """A change of the element type, of both parts."""
    wanted = [v for v in (*args, *kwargs.values()) if isinstance(v, (torch.dtype, Tensor, Complex))]
    dtype = wanted[0] if wanted else None
    if isinstance(dtype, (Tensor, Complex)):
        dtype = (
            dtype.dtype
            if isinstance(dtype, Tensor)
            else torch.promote_types(dtype.real.dtype, torch.complex32)
        )
    if dtype is None:
        return x
    if not dtype.is_complex:
        return parts(x).real.to(dtype)
    real = parts(x).real.to(dtype.to_real())
    return Complex(real, x.imag.to(dtype.to_real()) if isinstance(x, Complex) else torch.zeros_like(real))


@table.of("aten.eq.Tensor", "aten.eq.Scalar")
def eq(x: Argument, y: Argument) -> Tensor:
    """Whether both parts are equal."""
    x, y = parts(x), parts(y)
    return (x.real == y.real) & (x.imag == y.imag)
