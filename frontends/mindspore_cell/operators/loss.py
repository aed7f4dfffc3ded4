"""Losses that MindSpore computes in kernels of their own."""

from __future__ import annotations

from ....ir import Value
from ...lowering_table import LoweringTable
from ..call import Call

TABLE = LoweringTable[Call]("MindSpore")


@TABLE.op("CTCLossV2")
def ctc_loss(call: Call) -> tuple[Value, ...]:
    """The loss of each sequence; what the gradient needs beside is left out."""
    call.static_shape(call.value(0), [0])  # each frame is a step
    call.static_shape(call.value(1), [1])
    labels, frames, lengths = (call.cast(call.value(i), "int64") for i in (1, 2, 3))
    zero = call.flag("zero_infinity")
    call.require("reduction", "none")
    operands = call.value(0), labels, frames, lengths
    return (call.op("regraft.CTCLoss", *operands, blank=call.int("blank"), zero_infinity=zero),)


@TABLE.op("SmoothL1Loss")
def smooth_l1(call: Call) -> Value:
    """``0.5 d^2 / beta`` where the distance d is below beta, ``d - 0.5 beta`` above."""
    x, target, beta = call.value(0), call.value(1), call.float(2)
    distance = call.op("Abs", call.op("Sub", x, target))
    square = call.op("Mul", call.op("Mul", distance, distance), call.scalar_like(0.5 / beta, x))
    line = call.op("Sub", distance, call.scalar_like(0.5 * beta, x))
    near = call.op("Less", distance, call.scalar_like(beta, x))
    return _reduce(call, call.op("Where", near, square, line), ("sum", "mean", "none")[call.int(3)])


@TABLE.op("KLDivLoss")
def kl_divergence(call: Call) -> Value:
    """``target * (log(target) - x)``, 0 where the target is."""
    x, target = call.value(0), call.value(1)
    zero = call.scalar_like(0, target)
    term = call.op("Mul", target, call.op("Sub", call.op("Log", target), x))
    term = call.op("Where", call.op("Greater", target, zero), term, zero)
    how = call.text("reduction")
    if how == "batchmean":
        count = call.cast(call.op("Shape", x, start=0, end=1), call.dtype)
        total = call.op("ReduceSum", term, keepdims=0)
        return call.op("Div", total, call.op("Squeeze", count, call.constant([0])))
    return _reduce(call, term, how)


@TABLE.op("BCEWithLogitsLoss")
def binary_cross_entropy_of_logits(call: Call) -> Value:
    """``weight * ((1 - t) x + (1 + (p - 1) t) log(1 + e^-x))``, p the weights of positives."""
    x, target, weight, positive = (call.value(i) for i in range(4))
    one = call.scalar_like(1, x)
    factor = call.op("Add", one, call.op("Mul", call.op("Sub", positive, one), target))
    tail = call.op("Softplus", call.op("Neg", x))
    term = call.op("Add", call.op("Mul", call.op("Sub", one, target), x), call.op("Mul", factor, tail))
    how = call.plain(4) if 4 in call else call.text("reduction")
    how = ("sum", "mean", "none")[how] if isinstance(how, int) else how
    return _reduce(call, call.op("Mul", weight, term), how)


def _reduce(call: Call, x: Value, how: str) -> Value:
    return x if how == "none" else call.op("ReduceMean" if how == "mean" else "ReduceSum", x, keepdims=0)
