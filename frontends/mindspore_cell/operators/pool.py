"""Pooling."""

from __future__ import annotations

from ....ir import Value
from ...lowering_table import LoweringTable
from ..call import Lowering, Use
from .conv import interleaved

TABLE: LoweringTable[Lowering] = LoweringTable("MindSpore")


@TABLE.op("MaxPool")
def max_pool(use: Use) -> Value:
    """'same' or 'valid' over the last two axes."""
    if use.attributes.get("format") != "NCHW":
        raise use.unsupported("expected format NCHW")
    mode = str(use.attributes.get("pad_mode")).lower()
    return use.emit(
        "MaxPool",
        use.tensor(0),
        kernel_shape=use.attribute_ints("kernel_size")[-2:],
        strides=use.attribute_ints("strides")[-2:],
        auto_pad=_auto_pad(use, mode),
    )


@TABLE.op("AvgPool")
def average_pool(use: Use) -> Value:
    """Arguments: kernel, strides, pad mode (1 same, 2 valid), format; 'same' counts no padding."""
    modes = {1: "same", 2: "valid"}
    if use.int(4) != 0:
        raise use.unsupported("expected format NCHW")
    return use.emit(
        "AveragePool",
        use.tensor(0),
        kernel_shape=use.ints(1)[-2:],
        strides=use.ints(2)[-2:],
        auto_pad=_auto_pad(use, modes.get(use.int(3), str(use.int(3)))),
    )


@TABLE.op("MaxPool3D")
def max_pool_3d(use: Use) -> Value:
    mode = str(use.attributes.get("pad_mode")).lower()
    use.attributes.ignore("format")
    attributes: dict[str, object] = {
        "kernel_shape": use.attribute_ints("kernel_size")[-3:],
        "strides": use.attribute_ints("strides")[-3:],
        "ceil_mode": int(bool(use.attributes.get("ceil_mode"))),
    }
    pads = use.attribute_ints("pad_list")
    attributes |= {"pads": interleaved(pads)} if mode == "pad" else {"auto_pad": _auto_pad(use, mode)}
    return use.emit("MaxPool", use.tensor(0), **attributes)


@TABLE.op("AvgPool3D")
def average_pool_3d(use: Use) -> Value:
    """AvgPool2d with padding is one of these with a depth of 1."""
    mode = str(use.attributes.get("pad_mode")).lower()
    if use.attributes.get("divisor_override", 0):
        raise use.unsupported("expected no divisor_override")
    use.attributes.ignore("format", "pad")
    pads = use.attribute_ints("pad_list")
    attributes: dict[str, object] = {
        "kernel_shape": use.attribute_ints("kernel_size")[-3:],
        "strides": use.attribute_ints("strides")[-3:],
        "ceil_mode": int(bool(use.attributes.get("ceil_mode"))),
        "count_include_pad": int(bool(use.attributes.get("count_include_pad"))),
    }
    attributes |= {"pads": interleaved(pads)} if mode == "pad" else {"auto_pad": _auto_pad(use, mode)}
    return use.emit("AveragePool", use.tensor(0), **attributes)


@TABLE.op("MaxPoolWithArgmaxV2", "MaxPool3DWithArgmax")
def max_pool_with_argmax(use: Use) -> tuple[Value, ...]:
    """The indices are flat per channel, which ONNX's are not: only the values are there."""
    flat = use.node.op == "MaxPool3DWithArgmax"
    spatial = 3 if flat else 2
    use.attributes.ignore("argmax_type", "format")
    pads = use.attribute_ints("pads")
    pads = pads[-spatial:]  # in 2-d they begin with 1, 1 for batch and channels
    y = use.emit(
        "MaxPool",
        use.tensor(0),
        kernel_shape=use.attribute_ints("ksize" if flat else "kernel_size")[-spatial:],
        strides=use.attribute_ints("strides")[-spatial:],
        pads=[*pads, *pads],
        dilations=use.attribute_ints("dilation")[-spatial:],
        ceil_mode=int(bool(use.attributes.get("ceil_mode"))),
    )
    return (y,)


@TABLE.op("AdaptiveAvgPool2D", "AdaptiveAvgPool3D")
def adaptive_average_pool(use: Use) -> Value:
    """None in the output size keeps a dimension."""
    sizes = use.attributes.get("output_size")
    assert isinstance(sizes, tuple)
    x = use.tensor(0)
    shape = (use.b.type_of(x).shape or ())[-len(sizes) :]
    kept = [s if isinstance(s, int) and s > 0 else d for s, d in zip(sizes, shape, strict=True)]
    return use.emit("regraft.AdaptiveAveragePool", x, output_size=kept)


def _auto_pad(use: Use, mode: str) -> str:
    names = {"same": "SAME_UPPER", "valid": "VALID"}
    if mode not in names:
        raise use.unsupported(f"expected pad mode same or valid, got `{mode}`")
    return names[mode]
