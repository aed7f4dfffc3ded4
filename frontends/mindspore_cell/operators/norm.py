"""Normalisation."""

from __future__ import annotations

from ....ir import Value
from ... import formulas
from ...lowering_table import LoweringTable
from ..call import Call

TABLE = LoweringTable[Call]("MindSpore")


@TABLE.op("BatchNorm")
def batch_norm(call: Call) -> tuple[Value, ...]:
    """Lower BatchNorm with the Cell's momentum; MindIR has the primitive's default in evaluation.

    With `use_batch_statistics=True` it normalises by the batch in evaluation too, and reads no statistics.
    """
    if call.int(8) != 0:
        raise call.unsupported("expected data_format NCHW")
    if call.int(5):
        call.ignore(3, 4, 7)
        x, scale, bias = call.value(0), call.value(1), call.value(2)
        return (formulas.normalise_by_batch(call, x, scale, bias, call.float(6)),)
    own = getattr(call.cell, "momentum", None)  # kept as 1 - momentum, the share of the new statistics
    share = float(own) if isinstance(own, (int, float)) else call.float(7)
    call.ignore(7)
    y = call.op(
        "BatchNormalization",
        *(call.value(i) for i in range(5)),
        epsilon=call.float(6),
        momentum=round(1 - share, 7),
    )
    return (y,)


@TABLE.op("LayerNorm")
def layer_norm(call: Call) -> tuple[Value, ...]:
    """Lower LayerNorm, whose parameters must span the normalised axes, as in ONNX."""
    x = call.value(0)
    begin, scale_begin = call.int(3) % call.rank(x), call.int(4) % call.rank(x)
    if begin != scale_begin:
        raise call.unsupported(f"expected begin_norm_axis = begin_params_axis, got {begin} and {scale_begin}")
    y = call.op(
        "LayerNormalization",
        x,
        call.value(1),
        call.value(2),
        axis=begin - call.rank(x),
        epsilon=call.float(5),
    )
    return (y,)


@TABLE.op("GroupNorm")
def group_norm(call: Call) -> tuple[Value, ...]:
    """Return per-channel scale and bias."""
    y = call.op(
        "GroupNormalization",
        call.value(0),
        call.value(2),
        call.value(3),
        num_groups=call.int(1),
        epsilon=call.float(4),
    )
    return (y,)


@TABLE.op("L2Normalize")
def l2_normalize(call: Call) -> Value:
    """X / sqrt(max(sum(x^2), epsilon))."""
    x, axes = call.value(0), call.ints("axis")
    squares = call.op("ReduceSumSquare", x, call.constant(axes), keepdims=1)
    floor = call.scalar_like(call.float("epsilon"), x)
    return call.op("Div", x, call.op("Sqrt", call.op("Max", squares, floor)))


@TABLE.op("LRN")
def local_response_norm(call: Call) -> Value:
    """MindSpore's alpha is per element, ONNX divides its own by the window."""
    size = 2 * call.int("depth_radius") + 1
    if call.arg("norm_region") != "ACROSS_CHANNELS":
        raise call.unsupported("expected norm_region ACROSS_CHANNELS")
    return call.op(
        "LRN",
        call.value(0),
        size=size,
        alpha=call.float("alpha") * size,
        beta=call.float("beta"),
        bias=call.float("bias"),
    )
