"""The operators of ``mx.np`` and ``mx.npx`` that are not those of ``mx.sym`` under other names.

Comparisons give flags, and what divides whole numbers gives float32.
"""

from __future__ import annotations

import math

from ....ir import Value
from ....ir.dims import product
from ... import formulas
from ...lowering_table import LoweringTable
from ..call import Call
from .reduce import reduced
from .shape import reshaped

TABLE = LoweringTable[Call]("MXNet")
TABLE.direct({"_np_copy": "Identity", "_npx_sigmoid": "Sigmoid", "_npi_logical_not": "Not"})

_BINARY = {
    "add": "Add",
    "subtract": "Sub",
    "multiply": "Mul",
    "true_divide": "Div",
    "power": "Pow",
}
_COMPARISONS = {
    "equal": "Equal",
    "not_equal": "Equal",
    "greater": "Greater",
    "greater_equal": "GreaterOrEqual",
    "less": "Less",
    "less_equal": "LessOrEqual",
}
_RANKS = ("bool", "uint8", "int8", "int32", "int64", "float16", "float32", "float64")
"""Element types, of two of which the later is that of their result."""


def _alike(call: Call, x: Value, y: Value) -> tuple[Value, Value]:
    """Return two operands in the element type of their result."""
    dtype = max(call.dtype_of(x), call.dtype_of(y), key=_RANKS.index)
    return call.cast(x, dtype), call.cast(y, dtype)


def _number(call: Call) -> tuple[Value, Value]:
    """Return the operand and the number; whole numbers with one that is not become float64."""
    x, number = call.value(0), call.float("scalar")
    whole = call.flag("is_int", default=True)
    if not formulas.is_floating(call.dtype_of(x)) and (not whole or call.dtype_of(x) == "bool"):
        x = call.cast(x, "int64" if whole else "float64")
    return x, call.scalar_like(number, x)


def _binary(call: Call, name: str, x: Value, y: Value) -> Value:
    if name == "true_divide" and not formulas.is_floating(call.dtype_of(x)):
        x, y = call.cast(x, "float32"), call.cast(y, "float32")
    return call.op(_BINARY[name], x, y)


@TABLE.op(*(f"_npi_{name}" for name in _BINARY))
def binary(call: Call) -> Value:
    """Return arithmetic of two arrays."""
    return _binary(call, call.operator.removeprefix("_npi_"), *_alike(call, *call.operands()))


@TABLE.op(
    *(f"_npi_{name}_scalar" for name in _BINARY),
    *(f"_npi_r{name}_scalar" for name in _BINARY if name not in ("add", "multiply")),
)
def binary_with_scalar(call: Call) -> Value:
    """Arithmetic of an array and a number, which comes first in the operators whose name starts with r."""
    name = call.operator.removeprefix("_npi_").removesuffix("_scalar")
    x, number = _number(call)
    if name.endswith("true_divide") and not formulas.is_floating(call.dtype_of()):
        x, number = call.cast(x, "float32"), call.cast(number, "float32")
    return _binary(call, name, x, number) if name in _BINARY else _binary(call, name[1:], number, x)


def _compared(call: Call, name: str, x: Value, y: Value) -> Value:
    found = call.op(_COMPARISONS[name], x, y)
    return call.op("Not", found) if name == "not_equal" else found


@TABLE.op(*(f"_npi_{name}" for name in _COMPARISONS))
def comparison(call: Call) -> Value:
    """Flags."""
    return _compared(call, call.operator.removeprefix("_npi_"), *_alike(call, *call.operands()))


@TABLE.op(*(f"_npi_{name}_scalar" for name in _COMPARISONS))
def comparison_with_scalar(call: Call) -> Value:
    """Flags."""
    return _compared(call, call.operator.removeprefix("_npi_").removesuffix("_scalar"), *_number(call))


@TABLE.op("_np_sum", "_np_prod", "_np_max", "_np_min", "_npi_mean", "_npi_std", "_npi_var")
def reduction(call: Call) -> Value:
    """Reduce over axes, or all."""
    x, kind = call.value(0), call.operator.rpartition("_")[2]
    given, keep = call.optional_ints("axis"), call.flag("keepdims")
    rank = call.rank(x)
    axes = list(range(rank)) if given is None else [call.from_front(a or 0, rank) for a in given]
    dtype, shift = call.text("dtype", "None"), call.int("ddof", 0)
    if call.text("initial", "None") != "None" or shift:
        raise call.unsupported("expected no initial value, and ddof 0")
    if not formulas.is_floating(call.dtype_of(x)):
        if kind in ("std", "var"):
            raise call.unsupported(f"expected floating-point numbers, got {call.dtype_of(x)}")
        x = call.cast(x, "float32") if kind == "mean" else x
    x = x if dtype == "None" else call.cast(x, dtype)
    if kind in ("std", "var"):
        centred = call.op("Sub", x, reduced(call, "ReduceMean", x, axes, keep=True))
        found = reduced(call, "ReduceMean", formulas.square(call, centred), axes, keep=keep)
        return found if kind == "var" else call.op("Sqrt", found)
    return reduced(call, f"Reduce{kind.capitalize()}", x, axes, keep=keep)


@TABLE.op("_npi_argmax", "_npi_argmin")
def arg_extreme(call: Call) -> Value:
    """Return the place of the extreme, as int64; without an axis, in the flattened data."""
    x, axis, keep = call.value(0), call.optional_int("axis"), call.flag("keepdims")
    target = {"_npi_argmax": "ArgMax", "_npi_argmin": "ArgMin"}[call.operator]
    if axis is not None:
        return call.op(target, x, axis=call.from_front(axis, call.rank(x)), keepdims=keep)
    found = call.op(target, call.op("Reshape", x, call.constant([-1])), axis=0, keepdims=0)
    return call.reshape(found, [1] * call.rank(x)) if keep else found


@TABLE.op("_np_reshape", "_npx_reshape")
def reshape(call: Call) -> Value:
    """To sizes; -1 is inferred, in ``npx`` -2 copies a size, -4 the rest, -5 merges two, -6 splits one."""
    codes = call.ints("newshape")
    if call.text("order", "C") != "C" or call.flag("reverse"):
        raise call.unsupported("expected the order C, and no reverse")
    source = list(call.shape())
    if call.operator == "_npx_reshape":
        if -3 in codes:
            raise call.unsupported("expected no -3, which drops an axis of size 1")
        meaning = {-2: 0, -4: -2, -5: -3, -6: -4}
        return call.reshape(call.value(0), reshaped(call, source, [meaning.get(c, c) for c in codes]))
    if -1 in codes:
        return call.reshape(call.value(0), reshaped(call, [*source], codes))
    return call.reshape(call.value(0), codes)


@TABLE.op("_np_transpose")
def transpose(call: Call) -> Value:
    """Permute the axes by `axes`, or reverse them."""
    rank = call.rank()
    axes = call.optional_ints("axes") or list(range(rank))[::-1]
    return call.op("Transpose", call.value(0), perm=[call.from_front(a or 0, rank) for a in axes])


@TABLE.op("_np_moveaxis")
def move_axes(call: Call) -> Value:
    """Axes to other places, the rest in order."""
    rank = call.rank()
    source, target = ([call.from_front(a, rank) for a in call.ints(key)] for key in ("source", "destination"))
    order = [a for a in range(rank) if a not in source]
    for place, axis in sorted(zip(target, source, strict=True)):
        order.insert(place, axis)
    return call.op("Transpose", call.value(0), perm=order)


@TABLE.op("_np_squeeze")
def squeeze(call: Call) -> Value:
    """Remove axes of size 1."""
    shape, given = call.shape(), call.optional_ints("axis")
    gone = [i for i, d in enumerate(shape) if d == 1] if given is None else [a or 0 for a in given]
    gone = [call.from_front(a, len(shape)) for a in gone]
    return call.op("Squeeze", call.value(0), call.constant(gone)) if gone else call.value(0)


@TABLE.op("_npi_concatenate", "_npi_stack")
def joined(call: Call) -> Value:
    """Join along an axis, or along a new one."""
    call.ignore("num_args")
    parts, axis = call.operands(), call.optional_int("axis", 0)
    if call.operator == "_npi_stack":
        axis = call.from_front(axis or 0, call.rank() + 1)
        parts = [call.op("Unsqueeze", part, call.constant([axis])) for part in parts]
    elif axis is None:
        parts, axis = [call.op("Reshape", part, call.constant([-1])) for part in parts], 0
    return call.op("Concat", *parts, axis=call.from_front(axis, call.rank(parts[0])))


@TABLE.op("_npi_where")
def where(call: Call) -> Value:
    """Return one or the other."""
    condition, x, y = call.operands()
    return call.op("Where", call.cast(condition, "bool"), *_alike(call, x, y))


@TABLE.op("_npi_broadcast_to")
def broadcast_to(call: Call) -> Value:
    """Broadcast to a shape in which -2 keeps a size."""
    sizes, shape = call.ints("shape"), list(call.shape())
    lead = len(sizes) - len(shape)
    wanted = [shape[n - lead] if d == -2 and n >= lead else d for n, d in enumerate(sizes)]
    if not all(isinstance(d, int) for d in wanted):
        raise call.unsupported(f"expected known sizes, got {wanted}")
    call.bounded(math.prod(wanted))
    return call.op("Expand", call.value(0), call.constant(wanted))


@TABLE.op("_npi_matmul")
def matmul(call: Call) -> Value:
    """Return the matrix product."""
    return call.op("MatMul", *_alike(call, *call.operands()))


@TABLE.op("_np_dot")
def dot(call: Call) -> Value:
    """Return the last axis of the one with the last but one of the other; a number multiplies."""
    x, y = _alike(call, *call.operands())
    if 0 in (call.rank(x), call.rank(y)):
        return call.op("Mul", x, y)
    if call.rank(y) > 2:
        raise call.unsupported("expected a matrix or a vector on the right")
    return call.op("MatMul", x, y)


@TABLE.op("_npi_tensordot_int_axes")
def tensordot(call: Call) -> Value:
    """Return the last axes of the one with the first of the other."""
    (x, y), count = call.operands(), call.int("axes")
    left, right = call.shape(x), call.shape(y)
    inner = math.prod(call.static_shape(y, range(count)))
    rows, columns = left[: len(left) - count], right[count:]
    flat = call.op(
        "MatMul", call.reshape(x, [product(rows), inner]), call.reshape(y, [inner, product(columns)])
    )
    return call.reshape(flat, [*rows, *columns])


@TABLE.op("_npi_zeros", "_npi_ones")
def filled(call: Call) -> Value:
    """Return an array of one number."""
    call.ignore("ctx")
    shape, dtype = call.ints("shape", ()), call.text("dtype", "float32")
    call.bounded(math.prod(shape))
    number = call.constant(float(call.operator == "_npi_ones"), "float32" if dtype == "None" else dtype)
    return call.op("Expand", number, call.constant(shape)) if shape else number
