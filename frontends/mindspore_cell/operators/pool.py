"""Pooling."""

from __future__ import annotations

from math import prod
from typing import Any

from ....ir import Value
from ...formulas import begins_then_ends
from ...lowering_table import LoweringTable
from ..call import Call

TABLE = LoweringTable[Call]("MindSpore")


@TABLE.op("MaxPool")
def max_pool(call: Call) -> Value:
    """'same' or 'valid' over the last two axes."""
    if call.arg("format") != "NCHW":
        raise call.unsupported("expected format NCHW")
    mode = call.text("pad_mode").lower()
    return call.op(
        "MaxPool",
        call.value(0),
        kernel_shape=call.ints("kernel_size")[-2:],
        strides=call.ints("strides")[-2:],
        auto_pad=_auto_pad(call, mode),
    )


@TABLE.op("AvgPool")
def average_pool(call: Call) -> Value:
    """Arguments: kernel, strides, pad mode (1 same, 2 valid), format; 'same' counts no padding."""
    modes = {1: "same", 2: "valid"}
    if call.int(4) != 0:
        raise call.unsupported("expected format NCHW")
    return call.op(
        "AveragePool",
        call.value(0),
        kernel_shape=call.ints(1)[-2:],
        strides=call.ints(2)[-2:],
        auto_pad=_auto_pad(call, modes.get(call.int(3), str(call.int(3)))),
    )


@TABLE.op("MaxPool3D")
def max_pool_3d(call: Call) -> Value:
    mode = call.text("pad_mode").lower()
    call.ignore("format")
    attributes: dict[str, Any] = {
        "kernel_shape": call.ints("kernel_size")[-3:],
        "strides": call.ints("strides")[-3:],
        "ceil_mode": call.flag("ceil_mode"),
    }
    pads = call.ints("pad_list")
    attributes |= {"pads": begins_then_ends(pads)} if mode == "pad" else {"auto_pad": _auto_pad(call, mode)}
    return call.op("MaxPool", call.value(0), **attributes)


@TABLE.op("AvgPool3D")
def average_pool_3d(call: Call) -> Value:
    """AvgPool2d with padding is one of these with a depth of 1."""
    mode = call.text("pad_mode").lower()
    divisor, ceil = call.int("divisor_override", 0), call.flag("ceil_mode")
    call.ignore("format", "pad")
    pads = call.ints("pad_list")
    attributes: dict[str, Any] = {
        "kernel_shape": call.ints("kernel_size")[-3:],
        "strides": call.ints("strides")[-3:],
        "ceil_mode": call.flag("ceil_mode"),
        "count_include_pad": call.flag("count_include_pad"),
    }
    attributes |= {"pads": begins_then_ends(pads)} if mode == "pad" else {"auto_pad": _auto_pad(call, mode)}
    if not divisor:
        return call.op("AveragePool", call.value(0), **attributes)
    if ceil or mode == "same":
        raise call.unsupported("expected divisor_override without ceil_mode and pad_mode same")
    x = call.op(
        "AveragePool", call.value(0), **attributes | {"count_include_pad": 1}
    )  # all windows are whole
    return call.op("Mul", x, call.scalar_like(prod(attributes["kernel_shape"]) / divisor, x))


@TABLE.op("MaxPoolWithArgmaxV2", "MaxPool3DWithArgmax")
def max_pool_with_argmax(call: Call) -> tuple[Value, ...]:
    """The indices count within a channel, ONNX's within the whole batch."""
    flat = call.operator == "MaxPool3DWithArgmax"
    spatial = 3 if flat else 2
    call.ignore("argmax_type", "format")
    pads = call.ints("pads")
    pads = pads[-spatial:]  # in 2-d they begin with 1, 1 for batch and channels
    x = call.value(0)
    y, places = call.ops(
        "MaxPool",
        x,
        outputs=2,
        kernel_shape=call.ints("ksize" if flat else "kernel_size")[-spatial:],
        strides=call.ints("strides")[-spatial:],
        pads=[*pads, *pads],
        dilations=call.ints("dilation")[-spatial:],
        ceil_mode=call.flag("ceil_mode"),
    )
    size = call.constant(prod(call.static_shape(x, range(-spatial, 0))))
    return y, call.cast(call.op("Mod", places, size), call.result_type(1).dtype)


@TABLE.op("AdaptiveAvgPool2D", "AdaptiveAvgPool3D")
def adaptive_average_pool(call: Call) -> Value:
    """None in the output size keeps a dimension."""
    sizes = call.arg("output_size")
    assert isinstance(sizes, tuple)
    x = call.value(0)
    shape = call.shape(x)[-len(sizes) :]
    kept = [s if isinstance(s, int) and s > 0 else d for s, d in zip(sizes, shape, strict=True)]
    return call.op("regraft.AdaptiveAveragePool", x, output_size=kept)


@TABLE.op("AdaptiveMaxPool2D")
def adaptive_max_pool(call: Call) -> tuple[Value, ...]:
    """Values alone, -1 in the output size keeps a dimension; windows of several sizes axis by axis."""
    sizes = call.arg(1)
    assert isinstance(sizes, tuple)
    x = call.value(0)
    shape = call.shape(x)[-len(sizes) :]
    kept = [s if isinstance(s, int) and s > 0 else d for s, d in zip(sizes, shape, strict=True)]
    if all(k == 1 for k in kept):
        return (call.op("GlobalMaxPool", x),)
    if not all(isinstance(d, int) for d in shape):
        raise call.unsupported(f"expected static sizes, got {[str(d) for d in shape]}")
    window = [d // k for d, k in zip(shape, kept, strict=True)]
    if all(d == k * w for d, k, w in zip(shape, kept, window, strict=True)):
        return (call.op("MaxPool", x, kernel_shape=window, strides=window),)
    rank = call.rank(x)
    for axis, (size, count) in enumerate(zip(shape, kept, strict=True), rank - len(sizes)):
        assert isinstance(size, int)
        assert isinstance(count, int)
        parts = []
        for i in range(count):
            bounds = [i * size // count], [-(-(i + 1) * size // count)], [axis]
            part = call.op("Slice", x, *(call.constant(b) for b in bounds))
            parts.append(call.op("ReduceMax", part, call.constant([axis]), keepdims=1))
        x = call.op("Concat", *parts, axis=axis)
    return (x,)


def _auto_pad(call: Call, mode: str) -> str:
    names = {"same": "SAME_UPPER", "valid": "VALID"}
    if mode not in names:
        raise call.unsupported(f"expected pad mode same or valid, got `{mode}`")
    return names[mode]
