"""Convolutions."""

from __future__ import annotations

from typing import Any

from ....ir import Value
from ...formulas import begins_then_ends, per_axis
from ...lowering_table import LoweringTable
from ..call import Call

TABLE = LoweringTable[Call]("MindSpore")
_BIASED = ("Conv", "ConvTranspose", "regraft.Linear")
"""Operators with a bias for their third input, which MindSpore's layers of that kind add by BiasAdd."""

_NCDHW = 14  # MindSpore's number of that layout; NCHW is 0


@TABLE.op("Conv2D", "Conv3D")
def convolution(call: Call) -> Value:
    """'same' and 'valid' stay what they are; 'pad' is top, bottom, left, right (front, back first)."""
    spatial = len(call.ints("kernel_size"))
    _channels_first(call)
    mode = call.text("pad_mode").lower()
    pads = call.ints("pad")
    call.ignore("out_channel", "pad_list", "offset_x", "strides", "dilations", "mode", "io_format", "groups")
    attributes: dict[str, Any] = {
        "strides": per_axis(call.ints("stride"), spatial),
        "dilations": per_axis(call.ints("dilation"), spatial),
        "group": call.int("group"),
        "kernel_shape": call.ints("kernel_size"),
    }
    if mode == "pad":
        attributes["pads"] = begins_then_ends(pads)
    elif mode in ("same", "valid"):
        attributes["auto_pad"] = "SAME_UPPER" if mode == "same" else "VALID"
    else:
        raise call.unsupported(f"expected pad_mode same, valid or pad, got `{mode}`")
    return call.op("Conv", call.value(0), call.value(1), **attributes)


@TABLE.op("Conv2DTranspose", "Conv2DBackpropInput", "Conv3DTranspose")
def transposed_convolution(call: Call) -> Value:
    """Lower a transposed convolution, whose pads follow from the stated output size."""
    kernel = call.ints("kernel_size")
    rank = len(kernel)
    _channels_first(call)
    strides, dilations = per_axis(call.ints("stride"), rank), per_axis(call.ints("dilation"), rank)
    call.arg("pad_mode")
    call.ignore(2, "input_size", "in_channel", "output_padding", "strides", "dilations")
    known = [d for d in call.shape()[2:] if isinstance(d, int)]
    wanted = [d for d in (call.type.shape or ())[2:] if isinstance(d, int)]
    if len(known) != rank or len(wanted) != rank:
        raise call.unsupported("expected static spatial dimensions")
    begins = call.ints("pad_list")[0::2]
    pads_begin, pads_end, extra = [], [], []
    for i in range(rank):
        full = (known[i] - 1) * strides[i] + dilations[i] * (kernel[i] - 1) + 1
        end = full - begins[i] - wanted[i]
        pads_begin.append(begins[i])
        pads_end.append(max(end, 0))
        extra.append(max(-end, 0))
    call.ignore("out_channel", "pad", "pad_list", "mode", "groups")
    return call.op(
        "ConvTranspose",
        call.value(0),
        call.value(1),
        strides=strides,
        dilations=dilations,
        group=call.int("group"),
        kernel_shape=kernel,
        pads=[*pads_begin, *pads_end],
        output_padding=extra,
    )


@TABLE.op("BiasAdd")
def bias_add(call: Call) -> Value:
    """Add a bias along axis 1; a product with no other reader takes it as its own."""
    if call.int(2) not in (0, _NCDHW):
        raise call.unsupported("expected channels first")
    x, bias = call.value(0), call.value(1)
    producer = call.graph.producer(x)
    if call.is_sole_reader(0) and getattr(producer, "qualified_name", "") in _BIASED:
        slots = call.graph.operands(x.node)
        if len(slots) == 2 and call.graph.operator(x.node).call == call.b.call:
            call.graph.set_operand(x.node, 2, bias)
            return x
    trailing = call.rank(x) - 2
    if trailing > 0:
        bias = call.op("Unsqueeze", bias, call.constant(list(range(1, 1 + trailing))))
    return call.op("Add", x, bias)


def _channels_first(call: Call) -> None:
    layout = call.arg("format")
    if layout not in ("NCHW", "NCDHW"):
        raise call.unsupported(f"expected channels first, got `{layout}`")
