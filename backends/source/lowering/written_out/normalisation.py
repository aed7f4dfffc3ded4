"""Normalisations by what the tensor itself has."""

from __future__ import annotations

from collections.abc import Sequence

from .....ir import Builder, Operator, Value
from .....ir.composites.terms import Term, sqrt, where, whole
from .table import ExpansionTable, given, rank_of

TABLE = ExpansionTable()

Operands = Sequence[Value | None]


@TABLE.op("LpNormalization")
def lp_normalization(b: Builder, node: Operator, operands: Operands) -> list[Term] | None:
    """Divide by the norm along an axis; zeros where that is zero."""
    (x,) = given(b, operands, 1)
    p = node.int("p")
    if x is None or p not in (1, 2):
        return None
    norm = x.op(f"ReduceL{p}", whole(x, node.int("axis")), keepdims=1)
    return [where(norm.equals(0), 0, x / norm)]


@TABLE.op("BatchNormalization")
def batch_normalization(b: Builder, node: Operator, operands: Operands) -> list[Term] | None:
    """Normalise by the statistics of the batch in training, towards which the running ones move."""
    x, scale, bias, mean, variance = given(b, operands, 5)
    if x is None or scale is None or bias is None or mean is None or variance is None:
        return None
    if not node.int("training_mode") or (rank := rank_of(x)) is None:
        return None
    axes = whole(x, 0, *range(2, rank))
    shape = whole(x, -1, *[1] * (rank - 2))
    own_mean = x.op("ReduceMean", axes, keepdims=1)
    apart = x - own_mean
    own_variance = (apart * apart).op("ReduceMean", axes, keepdims=1)
    norm = apart / sqrt(own_variance + node.float("epsilon"))
    y = norm * scale.op("Reshape", shape) + bias.op("Reshape", shape)
    kept = node.float("momentum")
    running = [
        old * kept + new.op("Reshape", whole(x, -1)) * (1 - kept)
        for old, new in ((mean, own_mean), (variance, own_variance))
    ]
    return [y, *running][: len(node.types)]


@TABLE.op("Dropout")
def dropout(b: Builder, node: Operator, operands: Operands) -> list[Term] | None:
    """Write a Dropout that drops nothing: outside training, or with ratio 0; its mask is true everywhere."""
    x, ratio, training = given(b, operands, 3)
    if x is None:
        return None
    if training is not None:
        told = b.graph.constant_value(training.value)
        share = 0.5 if ratio is None else b.graph.constant_value(ratio.value)
        if told is None or (bool(told) and (share is None or float(share) != 0)):
            return None
    mask = Term(b, b.constant(True)).op("Expand", x.op("Shape"))
    return [x, mask][: len(node.types)]
