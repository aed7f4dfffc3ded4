"""Losses that MindSpore computes in kernels of their own."""

from __future__ import annotations

import numpy as np

from ....ir import Value
from ...lowering_table import LoweringTable
from ..call import Call

TABLE = LoweringTable[Call]("MindSpore")


@TABLE.op("CTCLossV2")
def ctc_loss(call: Call) -> tuple[Value, ...]:
    """Return the loss of each sequence; what the gradient needs beside is left out."""
    call.static_shape(call.value(0), [0])  # each frame is a step
    call.static_shape(call.value(1), [1])
    labels, frames, lengths = (call.cast(call.value(i), "int64") for i in (1, 2, 3))
    zero = call.flag("zero_infinity")
    call.require("reduction", "none")
    operands = call.value(0), labels, frames, lengths
    return (call.op("regraft.CTCLoss", *operands, blank=call.int("blank"), zero_infinity=zero),)


@TABLE.op("SmoothL1Loss")
def smooth_l1(call: Call) -> Value:
    """Return ``0.5 d^2 / beta`` where the distance d is below beta, ``d - 0.5 beta`` above."""
    x, target, beta = call.value(0), call.value(1), call.float(2)
    distance = call.op("Abs", call.op("Sub", x, target))
    square = call.op("Mul", call.op("Mul", distance, distance), call.scalar_like(0.5 / beta, x))
    line = call.op("Sub", distance, call.scalar_like(0.5 * beta, x))
    near = call.op("Less", distance, call.scalar_like(beta, x))
    return _reduce(call, call.op("Where", near, square, line), ("sum", "mean", "none")[call.int(3)])


@TABLE.op("KLDivLoss")
def kl_divergence(call: Call) -> Value:
    """Return ``target * (log(target) - x)``, 0 where the target is."""
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
    """Return ``weight * ((1 - t) x + (1 + (p - 1) t) log(1 + e^-x))``, p the weights of positives."""
    x, target, weight, positive = call.value(0), call.value(1), call.optional(2), call.optional(3)
    one = call.scalar_like(1, x)
    factor = one
    if positive is not None:
        factor = call.op("Add", one, call.op("Mul", call.op("Sub", positive, one), target))
    tail = call.op("Softplus", call.op("Neg", x))
    term = call.op("Add", call.op("Mul", call.op("Sub", one, target), x), call.op("Mul", factor, tail))
    how = call.plain(4) if 4 in call else call.text("reduction")
    how = ("sum", "mean", "none")[how] if isinstance(how, int) else how
    return _reduce(call, term if weight is None else call.op("Mul", weight, term), how)


_HOW = ("sum", "mean", "none")


@TABLE.op("BinaryCrossEntropy")
def binary_cross_entropy(call: Call) -> Value:
    """Return ``-weight (t log(x) + (1 - t) log(1 - x))``, of numbers away from 0 by the kernel's 1e-12."""
    x, target, weight = call.value(0), call.value(1), call.optional(2)
    one, least = call.scalar_like(1, x), call.scalar_like(1e-12, x)
    logs = (call.op("Log", call.op("Max", v, least)) for v in (x, call.op("Sub", one, x)))
    yes, no = (
        call.op("Mul", t, log) for t, log in zip((target, call.op("Sub", one, target)), logs, strict=True)
    )
    term = call.op("Neg", call.op("Add", yes, no))
    return _reduce(call, term if weight is None else call.op("Mul", weight, term), _HOW[call.int(3)])


@TABLE.op("MultiMarginLoss")
def multi_margin(call: Call) -> Value:
    """Return ``max(0, margin - x[t] + x)^p`` of the other classes, over the number of all."""
    x, labels, weight = call.value(0), call.value(1), call.optional(2)
    order, margin = call.int("p"), call.scalar_like(call.float("margin"), x)
    (classes,) = call.static_shape(x, [-1])
    at = call.op("Unsqueeze", labels, call.constant([-1]))
    own = call.op("GatherElements", x, at, axis=-1)
    over = call.op("Relu", call.op("Sub", x, call.op("Sub", own, margin)))
    over = over if order == 1 else call.op("Mul", over, over)
    if weight is not None:
        over = call.op("Mul", over, call.op("Gather", weight, at, axis=0))
    others = call.op("Equal", at, call.constant(np.arange(classes), call.dtype_of(labels)))
    over = call.op("Where", others, call.scalar_like(0, x), over)
    return _reduce(call, call.op("ReduceMean", over, call.constant([-1]), keepdims=0), call.text("reduction"))


@TABLE.op("NLLLoss")
def negative_log_likelihood(call: Call) -> tuple[Value, ...]:
    """Return the negated entry of each label; the second result is what the mean is over."""
    x, labels, weight = call.value(0), call.value(1), call.value(2)
    how, ignored = _HOW[call.int(3)], call.int(4)
    if call.rank() != 2:
        raise call.unsupported(f"expected a matrix, got {call.type_of()}")
    skipped = call.op("Equal", labels, call.constant(ignored, call.dtype_of(labels)))
    labels = call.op("Where", skipped, call.constant(0, call.dtype_of(labels)), labels)
    own = call.op("GatherElements", x, call.op("Unsqueeze", labels, call.constant([1])), axis=1)
    own = call.op("Squeeze", own, call.constant([1]))
    zero = call.scalar_like(0, x)
    share = call.op("Where", skipped, zero, call.op("Gather", weight, labels, axis=0))
    terms = call.op("Neg", call.op("Mul", own, share))
    if how == "none":
        return (terms,)
    total, shares = (call.op("ReduceSum", v, keepdims=0) for v in (terms, share))
    return call.op("Div", total, shares) if how == "mean" else total, shares


def _reduce(call: Call, x: Value, how: str) -> Value:
    return x if how == "none" else call.op("ReduceMean" if how == "mean" else "ReduceSum", x, keepdims=0)
