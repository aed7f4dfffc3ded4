"""Further functions of each element, sums of several tensors, and tensors of one number."""

from __future__ import annotations

from math import inf

import numpy as np

from ....ir import Value
from ... import formulas
from ...lowering_table import LoweringTable
from ..call import Call

TABLE = LoweringTable[Call]("MindSpore")
TABLE.direct({"Inv": "Reciprocal", "Invert": "BitwiseNot", "Lcm": "regraft.Lcm"})


@TABLE.op("AddN")
def add_all(call: Call) -> Value:
    first, *others = call.values(0)
    for other in others:
        first = call.op("Add", first, other)
    return first


@TABLE.op("ApproximateEqual")
def is_within(call: Call) -> Value:
    distance = call.op("Abs", call.op("Sub", call.value(0), call.value(1)))
    return call.op("Less", distance, call.scalar_like(call.float("tolerance"), distance))


@TABLE.op("IsClose")
def is_close(call: Call) -> Value:
    """Return ``|x - y| <= atol + rtol |y|``, or both the same infinity."""
    x, y = call.value(0), call.value(1)
    near, far, both_nan = call.float(3), call.float(2), call.flag(4)
    allowed = call.op(
        "Add", call.op("Mul", call.op("Abs", y), call.scalar_like(far, y)), call.scalar_like(near, y)
    )
    distance = call.op("Abs", call.op("Sub", x, y))
    finite = call.op("Less", distance, call.scalar_like(inf, x))
    close = call.op("And", call.op("LessOrEqual", distance, allowed), finite)
    close = call.op("Or", close, call.op("Equal", x, y))
    if both_nan:
        close = call.op("Or", close, call.op("And", call.op("IsNaN", x), call.op("IsNaN", y)))
    return close


@TABLE.op("Fmax")
def larger_but_nan(call: Call) -> Value:
    """Return the larger; a number rather than NaN."""
    call.ignore("ignore_nan")
    x, y = call.operand(0, call.dtype), call.operand(1, call.dtype)
    found = call.op("Max", x, y)
    if not formulas.is_floating(call.dtype):
        return found
    return call.op("Where", call.op("IsNaN", x), y, call.op("Where", call.op("IsNaN", y), x, found))


@TABLE.op("Xdivy")
def x_over_y(call: Call) -> Value:
    """0 where x is, unless y is no number."""
    x, y = call.operand(0, call.dtype), call.operand(1, call.dtype)
    zero = call.scalar_like(0, x)
    return call.op("Where", call.op("Equal", x, zero), zero, call.op("Div", x, y))


@TABLE.op("Logit")
def logit(call: Call) -> Value:
    """Return ``log(x / (1 - x))``, of x away from 0 and 1 by eps where that is not negative."""
    x, eps = call.value(0), call.float(1) if 1 in call else call.float("eps")
    if eps >= 0:
        x = formulas.clip(call, x, eps, 1 - eps)
    return call.op("Log", call.op("Div", x, call.op("Sub", call.scalar_like(1, x), x)))


@TABLE.op("Mvlgamma")
def log_gamma_of_many(call: Call) -> Value:
    x, count = call.value(0), call.int("p")
    shifted = [call.op("Sub", x, call.scalar_like(i / 2, x)) if i else x for i in range(count)]
    total = call.scalar_like(count * (count - 1) / 4 * np.log(np.pi), x)
    for value in shifted:
        total = call.op("Add", total, call.op("regraft.Lgamma", value))
    return total


@TABLE.op("PopulationCount")
def count_bits(call: Call) -> Value:
    """Count the bits of an integer that are 1, by a table of byte values."""
    x = call.value(0)
    dtype = call.dtype_of(x)
    width = np.iinfo(dtype).bits
    wide = call.cast(x, "int64")
    if dtype != "int64":
        wide = call.op("Mod", wide, call.constant(2**width))
    table = call.constant(np.array([bin(i).count("1") for i in range(256)], np.int64))
    total: Value | None = None
    for byte in range(width // 8):
        shifted = formulas.floor_divide(call, wide, call.constant(256**byte)) if byte else wide
        bits = call.op("Gather", table, call.op("Mod", shifted, call.constant(256)), axis=0)
        total = bits if total is None else call.op("Add", total, bits)
    assert total is not None
    return call.cast(total, call.dtype)


@TABLE.op("Ger")
def outer_product(call: Call) -> Value:
    columns, rows = (call.op("Unsqueeze", call.value(i), call.constant([at])) for i, at in ((0, -1), (1, -2)))
    return call.op("Mul", columns, rows)


@TABLE.op("Cross")
def cross_product(call: Call) -> Value:
    """Lower the cross product of vectors of three along an axis."""
    x, y, axis = call.value(0), call.value(1), call.axis("dim") if "dim" in call else call.axis(2)
    turned = call.constant([1, 2, 0]), call.constant([2, 0, 1])
    (x1, x2), (y1, y2) = ([call.op("Gather", v, at, axis=axis) for at in turned] for v in (x, y))
    return call.op("Sub", call.op("Mul", x1, y2), call.op("Mul", x2, y1))


@TABLE.op("SoftplusExt")
def softplus(call: Call) -> Value:
    """Return ``log(1 + e^(beta x)) / beta``, x itself above a threshold."""
    x, beta = call.value(0), call.float(1)
    scaled = call.op("Mul", x, call.scalar_like(beta, x))
    smooth = call.op("Div", call.op("Softplus", scaled), call.scalar_like(beta, x))
    return call.op("Where", call.op("Greater", scaled, call.scalar_like(call.float(2), x)), x, smooth)


@TABLE.op("GLU")
def gated_half(call: Call) -> Value:
    """Return half of an axis, times the sigmoid of the other half."""
    axis = call.axis(1) if 1 in call else call.axis("axis")
    (size,) = call.static_shape(axes=[axis])
    halves = call.ops("Split", call.value(0), call.constant([size // 2] * 2), outputs=2, axis=axis)
    return call.op("Mul", halves[0], call.op("Sigmoid", halves[1]))


@TABLE.op("Nansum")
def sum_but_nan(call: Call) -> Value:
    x, axes = call.value(0), call.axes(1)
    call.ignore(3)  # the result's type, which MindIR states as the node's own
    x = call.op("Where", call.op("IsNaN", x), call.scalar_like(0, x), x)
    return call.op("ReduceSum", call.cast(x, call.dtype), call.constant(axes), keepdims=call.flag(2))


@TABLE.op("Eps")
def least_step(call: Call) -> Value:
    """Return the type's distance from 1 to the next number, in the operand's shape."""
    x = call.value(0)
    return call.op("Expand", call.scalar_like(float(np.finfo(call.dtype).eps), x), call.op("Shape", x))


@TABLE.op("LinSpace")
def linear_space(call: Call) -> Value:
    """Return so many numbers from one to another."""
    count = call.int(2)
    steps = call.constant(np.linspace(0, 1, count), call.dtype)
    start, stop = call.operand(0, call.dtype), call.operand(1, call.dtype)
    if not isinstance(call.arg(0), Value) and not isinstance(call.arg(1), Value):
        return call.constant(np.linspace(call.float(0), call.float(1), count), call.dtype)
    return call.op("Add", start, call.op("Mul", steps, call.op("Sub", stop, start)))


@TABLE.op("HammingWindow")
def hamming_window(call: Call) -> Value:
    call.ignore("dtype")
    count, periodic = call.int(0), call.flag("periodic")
    places = np.arange(count) / max(count if periodic else count - 1, 1)
    found = call.float("alpha") - call.float("beta") * np.cos(2 * np.pi * places)
    return call.constant(found if count > 1 else np.ones(count), call.dtype)


@TABLE.op("NewZeros", "NewOnes")
def new_tensor(call: Call) -> Value:
    """Return zeros or ones of a shape, by default of the operand's type."""
    call.ignore(0, 2)
    number = call.constant(int(call.operator == "NewOnes"), call.dtype)
    return call.op("Expand", number, call.shape_value(call.sizes(1)))


@TABLE.op("ViewAs")
def view_as(call: Call) -> Value:
    """Return the same elements in the shape of another tensor."""
    return call.op("Reshape", call.value(0), call.op("Shape", call.value(1)), types=[call.result_type(0)])


@TABLE.op("ExpandAs")
def expand_as(call: Call) -> Value:
    return call.op("Expand", call.value(0), call.op("Shape", call.value(1)))


@TABLE.op("Contiguous")
def unchanged(call: Call) -> Value:
    return call.value(0)
