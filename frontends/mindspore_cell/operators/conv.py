"""Convolutions."""

from __future__ import annotations

from ....ir import Value
from ...lowering_table import LoweringTable
from ..call import Lowering, Use

TABLE: LoweringTable[Lowering] = LoweringTable("MindSpore")
_NCDHW = 14  # MindSpore's number of that layout; NCHW is 0


@TABLE.op("Conv2D", "Conv3D")
def convolution(use: Use) -> Value:
    """'same' and 'valid' stay what they are; 'pad' is top, bottom, left, right (front, back first)."""
    spatial = len(use.attribute_ints("kernel_size"))
    _channels_first(use)
    mode = str(use.attributes.get("pad_mode")).lower()
    pads = use.attribute_ints("pad")
    use.attributes.ignore(
        "out_channel", "pad_list", "offset_x", "strides", "dilations", "mode", "io_format", "groups"
    )
    attributes: dict[str, object] = {
        "strides": per_axis(use.attribute_ints("stride"), spatial),
        "dilations": per_axis(use.attribute_ints("dilation"), spatial),
        "group": use.attribute_int("group"),
        "kernel_shape": use.attribute_ints("kernel_size"),
    }
    if mode == "pad":
        attributes["pads"] = interleaved(pads)
    elif mode in ("same", "valid"):
        attributes["auto_pad"] = "SAME_UPPER" if mode == "same" else "VALID"
    else:
        raise use.unsupported(f"expected pad_mode same, valid or pad, got `{mode}`")
    return use.emit("Conv", use.tensor(0), use.tensor(1), **attributes)


@TABLE.op("Conv2DTranspose", "Conv2DBackpropInput")
def transposed_convolution(use: Use) -> Value:
    """The output size is given, so that the pads follow from it."""
    kernel = use.attribute_ints("kernel_size")
    _channels_first(use)
    strides, dilations = use.attribute_ints("stride")[-2:], use.attribute_ints("dilation")[-2:]
    use.attributes.get("pad_mode")
    size = use.dims(2)[-2:]
    known = [d for d in use.b.type_of(use.tensor(0)).shape or () if isinstance(d, int)][-2:]
    wanted = [d for d in size if isinstance(d, int)]
    if len(known) != 2 or len(wanted) != 2:
        raise use.unsupported("expected static spatial dimensions")
    begins = use.attribute_ints("pad_list")[0::2]
    pads_begin, pads_end, extra = [], [], []
    for i in range(2):
        full = (known[i] - 1) * strides[i] + dilations[i] * (kernel[i] - 1) + 1
        end = full - begins[i] - wanted[i]
        pads_begin.append(begins[i])
        pads_end.append(max(end, 0))
        extra.append(max(-end, 0))
    use.attributes.ignore("out_channel", "pad", "pad_list", "mode", "groups")
    return use.emit(
        "ConvTranspose",
        use.tensor(0),
        use.tensor(1),
        strides=strides,
        dilations=dilations,
        group=use.attribute_int("group"),
        kernel_shape=kernel,
        pads=[*pads_begin, *pads_end],
        output_padding=extra,
    )


@TABLE.op("BiasAdd")
def bias_add(use: Use) -> Value:
    """A bias along axis 1; onto a product that nothing else reads it becomes that operator's own bias."""
    if use.int(2) not in (0, _NCDHW):
        raise use.unsupported("expected channels first")
    x, bias = use.tensor(0), use.tensor(1)
    producer = use.graph.producer(x)
    if use.sole_reader(0) and getattr(producer, "qualified_name", "") in (
        "Conv",
        "ConvTranspose",
        "regraft.Linear",
    ):
        slots = use.graph.operands(x.node)
        if len(slots) == 2 and use.graph.operator(x.node).call == use.b.call:
            use.graph.set_operand(x.node, 2, bias)
            return x
    trailing = use.rank(x) - 2
    if trailing > 0:
        bias = use.b.op("Unsqueeze", bias, use.b.constant(list(range(1, 1 + trailing))))
    return use.emit("Add", x, bias)


def interleaved(pads: list[int]) -> list[int]:
    """(begin, end) pairs per axis -> all begins, then all ends, as ONNX has them."""
    return pads[0::2] + pads[1::2]


def per_axis(found: list[int], spatial: int) -> list[int]:
    """One number per spatial axis, of one for all, or of a list that begins with batch and channels."""
    return found * spatial if len(found) == 1 else found[-spatial:]


def _channels_first(use: Use) -> None:
    layout = use.attributes.get("format")
    if layout not in ("NCHW", "NCDHW"):
        raise use.unsupported(f"expected channels first, got `{layout}`")
