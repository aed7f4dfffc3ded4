"""Lowerings of convolutions."""

from __future__ import annotations

from typing import Any

from ....ir import Value
from ...formulas import is_floating, per_axis
from ...lowering_table import LoweringTable
from ..call import Call

TABLE = LoweringTable[Call]("torch")


def _spatial(call: Call, name: str) -> list[int]:
    """Return a per-axis argument, one number standing for all axes."""
    return per_axis(call.ints(name), call.rank("weight") - 2)


def _layer(call: Call, op_type: str, **attributes: Any) -> Value:
    """Conv or ConvTranspose, of an input with or without a batch axis."""
    if not is_floating(call.dtype):
        raise call.unsupported(
            f"expected floating-point numbers, got {call.dtype}: neither ONNX nor MindSpore has that",
            hint="convolve in float32 and round: `conv(x.float(), w.float()).round().to(x.dtype)`",
        )
    x, batched = call.value("input"), call.rank("input") == call.rank("weight")
    y = call.op(
        op_type,
        x if batched else call.op("Unsqueeze", x, call.constant([0])),
        call.value("weight"),
        call.optional("bias"),
        kernel_shape=call.static_shape("weight")[2:],
        strides=_spatial(call, "stride"),
        dilations=_spatial(call, "dilation"),
        group=call.int("groups"),
        **attributes,
    )
    return y if batched else call.op("Squeeze", y, call.constant([0]))


def _convolution(call: Call, pads: list[int]) -> Value:
    return _layer(call, "Conv", pads=pads)


@TABLE.op("aten.conv1d.default", "aten.conv2d.default", "aten.conv3d.default")
def conv(call: Call) -> Value:
    """Explicit symmetric padding."""
    return _convolution(call, _spatial(call, "padding") * 2)


@TABLE.op("aten.conv1d.padding", "aten.conv2d.padding", "aten.conv3d.padding")
def conv_padding(call: Call) -> Value:
    """Padding "same" (stride 1 only; an odd total goes to the end) or "valid", as explicit pads."""
    call.require("padding", "same", "valid")
    kernel = call.static_shape("weight")[2:]
    if call.arg("padding") == "valid":
        return _convolution(call, [0] * 2 * len(kernel))
    totals = [d * (k - 1) for d, k in zip(_spatial(call, "dilation"), kernel, strict=True)]
    return _convolution(call, [t // 2 for t in totals] + [t - t // 2 for t in totals])


def _transposed(call: Call) -> Value:
    pads = _spatial(call, "padding") * 2
    return _layer(call, "ConvTranspose", pads=pads, output_padding=_spatial(call, "output_padding"))


TABLE.op("aten.conv_transpose1d.default", "aten.conv_transpose2d.input", "aten.conv_transpose3d.input")(
    _transposed
)


@TABLE.op("aten.convolution.default")
def convolution(call: Call) -> Value:
    """Return the core operator that every convolution decomposes to."""
    if call.flag("transposed"):
        return _transposed(call)
    if any(_spatial(call, "output_padding")):
        raise call.unsupported("expected no `output_padding` without `transposed`")
    return _convolution(call, _spatial(call, "padding") * 2)
