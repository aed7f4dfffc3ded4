"""Pooling."""

from __future__ import annotations

from math import prod
from typing import Any

from ....ir import Value
from ...formulas import begins_then_ends, build_adaptive_max_pool
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
    """Lower a 3-d average pool, which is also the form of a padded AvgPool2d, with a depth of 1."""
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
    attributes["count_include_pad"] = 1  # all windows are whole
    x = call.op("AveragePool", call.value(0), **attributes)
    return call.op("Mul", x, call.scalar_like(prod(attributes["kernel_shape"]) / divisor, x))


@TABLE.op("MaxPoolWithArgmaxV2", "MaxPool3DWithArgmax")
def max_pool_with_argmax(call: Call) -> tuple[Value, ...]:
    """Lower a max pool with places, which count within their plane, but over the whole tensor in ONNX."""
    flat = call.operator == "MaxPool3DWithArgmax"
    spatial = 3 if flat else 2
    call.ignore("argmax_type", "format")
    pads = call.ints("pads")
    pads = pads[-spatial:]  # in 2-d they begin with 1, 1 for batch and channels
    found = call.ops(
        "MaxPool",
        call.value(0),
        outputs=1 + call.is_read(1),
        kernel_shape=call.ints("ksize" if flat else "kernel_size")[-spatial:],
        strides=call.ints("strides")[-spatial:],
        pads=[*pads, *pads],
        dilations=call.ints("dilation")[-spatial:],
        ceil_mode=call.flag("ceil_mode"),
    )
    if len(found) == 1:
        return (found[0],)
    plane = prod(call.static_shape(call.value(0), range(-spatial, 0)))
    places = call.op("Mod", found[1], call.constant(plane))
    return found[0], call.cast(places, call.result_type(1).dtype)


@TABLE.op("AdaptiveAvgPool2D", "AdaptiveAvgPool3D")
def adaptive_average_pool(call: Call) -> Value:
    """Lower an adaptive average pool; None in the output size keeps a dimension."""
    sizes = call.arg("output_size")
    assert isinstance(sizes, tuple)
    x = call.value(0)
    shape = call.shape(x)[-len(sizes) :]
    kept = [s if isinstance(s, int) and s > 0 else d for s, d in zip(sizes, shape, strict=True)]
    return call.op("regraft.AdaptiveAveragePool", x, output_size=kept)


@TABLE.op("AdaptiveMaxPool2D", "AdaptiveMaxPool3D")
def adaptive_max_pool(call: Call) -> tuple[Value, ...]:
    """Lower an adaptive max pool; -1 in the output size keeps a dimension."""
    given, x = call.ints(1), call.value(0)
    sizes = call.static_shape(x, range(-len(given), 0))
    output = [size if size > 0 else own for size, own in zip(given, sizes, strict=True)]
    y, places = build_adaptive_max_pool(call, x, output, has_places=call.is_read(1))
    return (y,) if places is None else (y, call.cast(places, call.result_type(1).dtype))


@TABLE.op("MaxUnpool2D", "MaxUnpool3D")
def max_unpool(call: Call) -> Value:
    """Windows and strides say no more than the size of the result."""
    call.ignore("ksize", "strides", "pads", "output_shape")
    if call.text("format") not in ("NCHW", "NCDHW"):
        raise call.unsupported("expected format NCHW or NCDHW")
    x, places = call.value(0), call.cast(call.value(1), "int64")
    output = [size for size in (call.type.shape or ())[2:] if isinstance(size, int)]
    if len(output) != call.rank(x) - 2:
        raise call.unsupported(f"expected a result of a static size, got {call.type}")
    return call.op("regraft.MaxUnpool", x, places, output_size=output)


def _auto_pad(call: Call, mode: str) -> str:
    names = {"same": "SAME_UPPER", "valid": "VALID"}
    if mode not in names:
        raise call.unsupported(f"expected pad mode same or valid, got `{mode}`")
    return names[mode]
