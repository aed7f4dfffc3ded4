"""Normalisation."""

from __future__ import annotations

from ....ir import Value
from ...lowering_table import LoweringTable
from ..call import Lowering, Use

TABLE: LoweringTable[Lowering] = LoweringTable("MindSpore")


@TABLE.op("BatchNorm")
def batch_norm(use: Use) -> tuple[Value, ...]:
    """MindIR's momentum is the primitive's default in evaluation; the layer's own is on the Cell."""
    if use.int(5):
        raise use.unsupported("it runs on batch statistics in evaluation mode")
    if use.int(8) != 0:
        raise use.unsupported("expected data_format NCHW")
    own = getattr(use.cell, "momentum", None)  # kept as 1 - momentum, the share of the new statistics
    share = float(own) if isinstance(own, (int, float)) else use.float(7)
    use.ignore(7)
    y = use.emit(
        "BatchNormalization",
        *(use.tensor(i) for i in range(5)),
        epsilon=use.float(6),
        momentum=round(1 - share, 7),
    )
    return (y,)


@TABLE.op("LayerNorm")
def layer_norm(use: Use) -> tuple[Value, ...]:
    """The parameters must span the normalised axes, which is what ONNX has."""
    x = use.tensor(0)
    begin, scale_begin = use.int(3) % use.rank(x), use.int(4) % use.rank(x)
    if begin != scale_begin:
        raise use.unsupported(f"expected begin_norm_axis = begin_params_axis, got {begin} and {scale_begin}")
    y = use.emit(
        "LayerNormalization", x, use.tensor(1), use.tensor(2), axis=begin - use.rank(x), epsilon=use.float(5)
    )
    return (y,)


@TABLE.op("GroupNorm")
def group_norm(use: Use) -> tuple[Value, ...]:
    """Per-channel scale and bias."""
    y = use.emit(
        "GroupNormalization",
        use.tensor(0),
        use.tensor(2),
        use.tensor(3),
        num_groups=use.int(1),
        epsilon=use.float(4),
    )
    return (y,)


@TABLE.op("L2Normalize")
def l2_normalize(use: Use) -> Value:
    """X / sqrt(max(sum(x^2), epsilon))."""
    x, axes = use.tensor(0), use.attribute_ints("axis")
    squares = use.b.op("ReduceSumSquare", x, use.b.constant(axes), keepdims=1)
    floor = use.b.scalar_like(use.attribute_float("epsilon"), x)
    return use.emit("Div", x, use.b.op("Sqrt", use.b.op("Max", squares, floor)))


@TABLE.op("LRN")
def local_response_norm(use: Use) -> Value:
    """MindSpore's alpha is per element, ONNX divides its own by the window."""
    size = 2 * use.attribute_int("depth_radius") + 1
    if use.attributes.get("norm_region") != "ACROSS_CHANNELS":
        raise use.unsupported("expected norm_region ACROSS_CHANNELS")
    return use.emit(
        "LRN",
        use.tensor(0),
        size=size,
        alpha=use.attribute_float("alpha") * size,
        beta=use.attribute_float("beta"),
        bias=use.attribute_float("bias"),
    )
