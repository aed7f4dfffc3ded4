"""Operators, and forms of them, that came after our opset, in operators of ours."""

from __future__ import annotations

import numpy as np

from ...ir import Value, numpy_dtype, onnx_dtype
from ...ir.types import dtype_of_onnx
from .call import Call


def swish(call: Call) -> Value:
    """Return the operand times the sigmoid of a multiple of it."""
    x, alpha = call.value(0), call.take("alpha", 1.0)
    inner = x if alpha == 1.0 else call.op("Mul", x, call.scalar_like(alpha, x))
    return call.op("Mul", x, call.op("Sigmoid", inner))


def cast_like(call: Call) -> Value:
    """Cast to an element type, which is known here."""
    return call.op("Cast", call.value(0), to=onnx_dtype(call.dtype(1)), saturate=call.take("saturate"))


def cum_prod(call: Call) -> Value:
    """Running products; backwards, and up to the element before, where asked."""
    x, rank, axis = call.value(0), call.rank(), call.array(1)
    turned, before = call.take("reverse", 0), call.take("exclusive", 0)
    if axis is not None or rank == 1:
        at = 0 if axis is None else int(axis.reshape(-1)[0]) % rank
        return _products(call, x, at, turned=turned, before=before)
    wanted = call.op("Mod", call.op("Cast", call.value(1), to=onnx_dtype("int64")), call.constant(rank))
    found = _products(call, x, 0, turned=turned, before=before)
    for at in range(1, rank):
        here = call.op("Equal", wanted, call.constant(at))
        found = call.op("Where", here, _products(call, x, at, turned=turned, before=before), found)
    return found


def _products(call: Call, x: Value, axis: int, *, turned: bool, before: bool) -> Value:
    x = _turned(call, x, axis) if turned else x
    found = call.op("regraft.CumProd", x, axis=axis)
    if before:
        rank = call.rank()
        pads = [0] * (2 * rank)
        pads[axis] = 1
        wide = call.op("Pad", found, call.ints(pads), call.scalar_like(1, x))
        found = call.op("Slice", wide, call.ints([0]), call.ints([-1]), call.ints([axis]))
    return _turned(call, found, axis) if turned else found


def _turned(call: Call, value: Value, axis: int) -> Value:
    return call.op(
        "Slice", value, call.ints([-1]), call.ints([-(1 << 62)]), call.ints([axis]), call.ints([-1])
    )


def tensor_scatter(call: Call) -> Value:
    """Return rows of an update from an index of each example on."""
    past, update = call.type(0), call.type(1)
    rank = call.rank()
    axis = call.take("axis", -2) % rank
    length, most = (update.shape or ())[axis], (past.shape or ())[axis]
    if not isinstance(length, int) or not isinstance(most, int):
        raise call.unsupported("expected static lengths")
    steps = call.constant(np.arange(length).reshape(-1, *[1] * (rank - 1 - axis)))
    start = call.optional(2)
    if start is not None:
        rows = call.op("Reshape", start, call.ints([-1, *[1] * (rank - 1)]))
        steps = call.op("Add", rows, steps)
    if call.take("mode", "linear") == "circular":
        steps = call.op("Mod", steps, call.constant(most))
    indices = call.op("Expand", steps, call.op("Shape", call.value(1)))
    return call.op("ScatterElements", call.value(0), indices, call.value(1), axis=axis)


def bit_shift(call: Call) -> Value | None:
    """Shifts of signed numbers; those of unsigned ones are ours."""
    dtype = call.dtype()
    if not dtype.startswith("int"):
        return None
    width = int(numpy_dtype(dtype).itemsize) * 8
    wide = onnx_dtype("int64")
    x = call.op("Cast", call.value(0), to=wide)
    by = call.op("Cast", call.value(1), to=wide)
    zero, one = call.constant(0), call.constant(1)
    least = 63 if call.attributes["direction"] == "RIGHT" else width
    far = call.op(
        "Or", call.op("Less", by, zero), call.op("GreaterOrEqual", by, call.constant(min(width, least)))
    )
    powers = np.left_shift(np.int64(1), np.arange(64, dtype=np.int64))
    factor = call.op("Gather", call.constant(powers), call.op("Where", far, zero, by), axis=0)
    if call.take("direction") == "LEFT":
        found = call.op("Where", far, zero, call.op("Mul", x, factor))
    else:
        rest = call.op("Mod", x, factor)
        sign = call.op("Where", call.op("Less", x, zero), call.op("Neg", one), zero)
        found = call.op("Where", far, sign, call.op("Div", call.op("Sub", x, rest), factor))
    return call.op("Cast", found, to=onnx_dtype(dtype))


def mod(call: Call) -> Value | None:
    """Return remainders of floating point with the sign of the divisor."""
    if call.attributes.get("fmod") or "float" not in call.dtype():
        return None
    x, y = call.value(0), call.value(1)
    rest = call.op("Mod", x, y, fmod=1)
    zero = call.scalar_like(0.0, rest)
    other = call.op("Xor", call.op("Less", rest, zero), call.op("Less", y, zero))
    moved = call.op("And", other, call.op("Not", call.op("Equal", rest, zero)))
    return call.op("Where", moved, call.op("Add", rest, y), rest)


def space_to_depth(call: Call) -> Value | None:
    """Blocks moved to channels, in either order."""
    if call.take("mode", "DCR") == "DCR":
        return None
    size = call.take("blocksize")
    batch, channels, height, width = call.type().shape or (None, None, None, None)
    if not isinstance(channels, int) or not isinstance(height, int) or not isinstance(width, int):
        raise call.unsupported("expected a static image")
    rows, columns = height // size, width // size
    apart = call.op("Reshape", call.value(0), call.ints([-1, channels, rows, size, columns, size]))
    moved = call.op("Transpose", apart, perm=[0, 1, 3, 5, 2, 4])
    lead = batch if isinstance(batch, int) else 0
    return call.op("Reshape", moved, call.ints([lead, channels * size * size, rows, columns]))


def mean_variance(call: Call) -> None:
    """State the default axes, for runtimes that forget them."""
    call.attributes.setdefault("axes", [0, 2, 3])


def bit_cast(call: Call) -> Value:
    """Return the same bits as an integer of the other sign."""
    before, to = call.dtype(), dtype_of_onnx(call.take("to"))
    if before.removeprefix("u") != to.removeprefix("u") or "int" not in before:
        raise call.unsupported(
            f"expected integers of one width, got {before} as {to}",
            hint="no operator of ONNX before opset 26 reads the bits of a number",
        )
    return call.op("Cast", call.value(0), to=onnx_dtype(to))
