"""Operators on complex tensors, each a pair of real ones, by operators on real tensors.

Only those that torch does not decompose have a row: its decompositions end in operators on complex tensors.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import Tensor

from ...complex_numbers import Complex, parts
from ..nodes import functional_name
from .table import Expansions, Inexpressible

table = Expansions()


Argument = Tensor | Complex | complex
"""An argument of an operator on complex tensors."""

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
    name = str(target) if str(target) in table else functional_name(target) or str(target)
    namespace, base, overload = [*name.split("."), "", ""][:3]
    if name in table:
        return table[name]
    if namespace != "aten":
        return None
    function = getattr(getattr(torch.ops.aten, base), overload)
    if base in BY_PARTS:
        return lambda *args, **kwargs: _by_parts(function, args, kwargs)
    if base in PRODUCTS:
        return lambda *args, **kwargs: multilinear(function, args, kwargs)
    return None


def _by_parts(target: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Return an operator once on all real and once on all imaginary parts."""
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
    """Return a product that is linear in each of its tensors, by those of their parts.

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


@table.op("aten.constant_pad_nd.default")
def pad_with(x: Complex, places: Sequence[int], value: complex = 0) -> Complex:
    """Return a tensor with a number around it."""
    number = complex(value)
    pairs = (x.real, number.real), (x.imag, number.imag)
    return Complex(*(torch.ops.aten.pad.default(t, places, "constant", n) for t, n in pairs))


@table.op("aten.pad.default")
def pad(x: Complex, places: Sequence[int], mode: str = "constant", value: complex | None = None) -> Complex:
    """Return a tensor with a number, or with its own elements, around it."""
    if mode == "constant":
        return pad_with(x, places, value or 0)
    return Complex(*(torch.ops.aten.pad.default(t, places, mode) for t in (x.real, x.imag)))


@table.op("aten.copy.default")
def copy(x: Complex, source: Argument, non_blocking: bool = False) -> Complex:
    """Overwrite all of a tensor with a value, spread to its shape."""
    del non_blocking
    source = parts(source)
    imag = source.imag if isinstance(source.imag, Tensor) else torch.zeros_like(source.real)
    return Complex(*(torch.ops.aten.copy.default(x.real, t) for t in (source.real, imag)))


def _filled(target: Any, size: Sequence[Any], *, dtype: torch.dtype, **options: Any) -> Complex:
    """Return a new tensor: of zeros and ones, the imaginary part is zeros."""
    del options
    real = dtype.to_real()
    return Complex(target(size, dtype=real), torch.ops.aten.zeros.default(size, dtype=real))


for _name in ("zeros.default", "ones.default", "empty.memory_format"):
    _target: Any = operator.attrgetter(_name)(torch.ops.aten)
    table.op(f"aten.{_name}")(partial(_filled, _target))


def scaled(x: Argument, factor: Argument) -> Complex:
    """Return a multiple, which of a factor of 1 is the numbers themselves."""
    return parts(x) if factor == 1 else parts(x) * factor


for _name, _run in {
    "add": lambda x, y, alpha=1: parts(x) + scaled(y, alpha),
    "sub": lambda x, y, alpha=1: parts(x) - scaled(y, alpha),
    "mul": lambda x, y: parts(x) * y,
}.items():
    table.op(f"aten.{_name}.Tensor", f"aten.{_name}.Scalar")(_run)
table.op("aten.div.Tensor")(lambda x, y: parts(x) / y)


@table.op("aten.view_as_complex.default", "aten.view_as_complex_copy.default")
def view_as_complex(x: Tensor) -> Complex:
    """View the last axis as both parts."""
    return Complex(x[..., 0], x[..., 1])


@table.op("aten.view_as_real.default", "aten.view_as_real_copy.default")
def view_as_real(x: Complex) -> Tensor:
    """Return both parts on a last axis."""
    return torch.stack([x.real, x.imag], -1)


@table.op("aten.complex.default")
def complex_(real: Tensor, imag: Tensor) -> Complex:
    """Return a complex tensor of its parts."""
    return Complex(*torch.broadcast_tensors(real, imag))


@table.op("aten.polar.default")
def polar(length: Tensor, angle: Tensor) -> Complex:
    """Return a complex tensor of lengths and angles."""
    return Complex(length * torch.cos(angle), length * torch.sin(angle))


@table.op("aten._to_copy.default")
def to_copy(x: Argument, *, dtype: torch.dtype | None = None, **options: Any) -> Argument:
    """Return a change of the element type, of both parts; a truth value is whether one of them is not 0."""
    del options
    if dtype is None:
        return x
    x = parts(x)
    if dtype is torch.bool:
        return ~is_null(x)
    if not dtype.is_complex:
        return x.real.to(dtype)
    real = x.real.to(dtype.to_real())
    return Complex(real, x.imag.to(real.dtype) if isinstance(x.imag, Tensor) else torch.zeros_like(real))


def is_null(x: Complex) -> Tensor:
    """Return where both parts are 0."""
    return (x.real == 0) & (x.imag == 0)
