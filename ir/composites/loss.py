"""Losses: heads that are identity, softmax or sigmoid in inference, whose gradients are their own; alignment.

Alignment is connectionist temporal classification: how likely scores of frames make a row of labels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..errors import BackendError
from ..nodes import Operator
from ..signatures import AttributeSpec
from ..traits import Traits
from ..types import TensorType
from .base import CompositeTable
from .matrices import joined, part, within, without
from .terms import Term, terms_of, where, whole

if TYPE_CHECKING:
    from ..builder import Builder
    from ..nodes import Value

TABLE = CompositeTable()

_LABEL = AttributeSpec("label", "string")  # name of the label input that training feeds
_HEAD = Traits(own_gradient=True)
_SCALE = AttributeSpec("grad_scale", "float", default=1.0)
_NORMALIZATION = AttributeSpec("normalization", "string", default="null")


def same_type(operator: Operator, types: Sequence[TensorType | None]) -> list[TensorType | None]:
    """Return the first operand's."""
    return [types[0]]


def _identity(b: Builder, operator: Operator, operands: Sequence[Value | None]) -> list[Value]:
    x = operands[0]
    assert x is not None
    return [b.op("Identity", x)]


def nothing(b: Builder, operator: Operator, operands: Sequence[Value | None]) -> list[Value]:
    """Return the value itself, where inference may have it twice: an output needs an operator of its own."""
    x = operands[0]
    assert x is not None
    given = isinstance(b.graph.node(x.node), Operator) and not b.graph.is_output(x)
    return [x] if given else _identity(b, operator, operands)


def _softmax(b: Builder, operator: Operator, operands: Sequence[Value | None]) -> list[Value]:
    x = operands[0]
    assert x is not None
    axis = operator.int("axis")
    if axis:
        return [b.op("Softmax", x, axis=axis)]
    y = b.op("Softmax", b.op("Flatten", x, axis=1), axis=-1)
    type_ = b.graph.known_type(x)
    return [b.op("Reshape", y, b.op("Shape", x), types=[type_])]


def _sigmoid(b: Builder, operator: Operator, operands: Sequence[Value | None]) -> list[Value]:
    x = operands[0]
    assert x is not None
    return [b.op("Sigmoid", x)]


TABLE.add(
    "StopGradient",
    inputs="X",
    infer=same_type,
    expand=nothing,
    summary="X, through which no gradient flows back",
)
TABLE.add(
    "MakeLoss",
    inputs="X",
    attributes=[_SCALE, _NORMALIZATION, AttributeSpec("valid_thresh", "float", default=0.0)],
    infer=same_type,
    expand=_identity,
    traits=_HEAD,
    summary="X, whose gradient is grad_scale (divided by the batch or the valid count when normalized)",
)
TABLE.add(
    "SoftmaxOutput",
    inputs="X L?",
    attributes=[
        AttributeSpec("axis", "int", default=-1),  # 0: all axes but the batch together
        _LABEL,
        _SCALE,
        AttributeSpec("ignore_label", "float"),
        _NORMALIZATION,
        AttributeSpec("smooth_alpha", "float", default=0.0),
    ],
    infer=same_type,
    expand=_softmax,
    traits=_HEAD,
    summary="softmax of X, whose gradient is that of the cross-entropy against the label",
)
for _name, _expand in (
    ("LinearRegressionOutput", _identity),
    ("MAERegressionOutput", _identity),
    ("LogisticRegressionOutput", _sigmoid),
):
    TABLE.add(
        _name,
        inputs="X L?",
        attributes=[_LABEL, _SCALE],
        infer=same_type,
        expand=_expand,
        traits=_HEAD,
        summary="a regression head: its gradient is the difference to the label (its sign for MAE)",
    )
TABLE.add(
    "SVMOutput",
    inputs="X L?",
    attributes=[
        _LABEL,
        AttributeSpec("margin", "float", default=1.0),
        AttributeSpec("regularization_coefficient", "float", default=1.0),
        AttributeSpec("use_linear", "int", default=0),
    ],
    infer=same_type,
    expand=_identity,
    traits=_HEAD,
    summary="X, whose gradient is that of the hinge loss against the label",
)


# -- alignment -------------------------------------------------------------------------------------------

_LOWEST = -1e30
"""The logarithm of what cannot be: of three of them together too, float32 knows the sum."""


def _infer_alignment(operator: Operator, types: Sequence[TensorType | None]) -> list[TensorType | None]:
    scores, *others = types
    if scores is not None and not scores.dtype.startswith(("float", "bfloat")):
        raise ValueError(f"expected scores in floating-point numbers, got {scores}")
    for given, rank in zip(types, (3, 2, 1, 1), strict=True):
        if given is not None and given.rank not in (None, rank):
            raise ValueError(f"expected scores of (frames, batch, classes), labels and lengths, got {given}")
    if any(given is not None and given.dtype != "int64" for given in others):
        raise ValueError(f"expected labels and lengths in int64, got {', '.join(map(str, others))}")
    if scores is None or scores.shape is None:
        return [scores]
    return [scores.with_shape((scores.shape[1],))]


def _static(b: Builder, value: Term, axis: int, what: str) -> int:
    known = b.type_of(value.value)
    size = None if known.shape is None else known.shape[axis]
    if not isinstance(size, int):
        raise BackendError(
            "E602",
            f"expected a static number of {what}, got {known}",
            hint="each step over a frame is written out: give the input sizes with --input",
        )
    return size


def _expand_alignment(b: Builder, operator: Operator, operands: Sequence[Value | None]) -> list[Value]:
    """Return the forward recursion over (blank, a label, blank, another, ..., blank), a step a frame."""
    scores, labels, frames, lengths = terms_of(b, operands)
    dtype = scores.dtype
    scores = scores if dtype == "float64" else scores.cast("float32")
    steps, width = _static(b, scores, 0, "frames"), _static(b, labels, 1, "labels")
    count = 2 * width + 1
    classes = (b.type_of(scores.value).shape or (None,))[-1]
    inside = labels.clip(0, classes - 1 if isinstance(classes, int) else None)  # padding may be anything
    blanks = np.where(np.arange(count) % 2, np.arange(count) // 2, width)
    wanted = _padded(inside, [0, 1], operator.int("blank")).op("Gather", Term(b, b.constant(blanks)), axis=1)

    spread = Term(b, b.op("Expand", within(wanted, 0).value, b.constant([steps, 1, 1])))
    emitted = scores.op("GatherElements", spread, axis=2)
    last = within(lengths, -1) * 2
    emitted = where(last < Term(b, b.constant(np.arange(count))), _LOWEST, emitted).clip(_LOWEST)
    each = [emitted]
    if steps > 1:
        each = [Term(b, v) for v in b.ops("Split", emitted.value, outputs=steps, axis=0, num_outputs=steps)]
    alphas = [where(Term(b, b.constant(np.arange(count) < 2)), each[0], _LOWEST)]
    if steps > 1:
        barred = _barred(wanted, scores)
        # itself, the one before, the one before that, of what two places are put in front of
        back = Term(b, b.constant(np.arange(count)[:, None] + np.array([2, 1, 0])))
        pads, lowest = Term(b, b.constant([0, 0, 2, 0, 0, 0])), scores.beside(_LOWEST)
        for emission in each[1:]:
            before = alphas[-1].op("Pad", pads, lowest).op("Gather", back, axis=2) + barred
            alphas.append((_sum_of_logarithms(before) + emission).op("Clip", lowest))
    return [_read_losses(operator, joined(alphas, 0), frames, lengths, last).cast(dtype).value]


def _barred(wanted: Term, scores: Term) -> Term:
    """Return the scores that forbid to skip a place between equal labels, such as two blanks."""
    same = part(wanted, 1, 2, 2**31 - 1).equals(part(wanted, 1, 0, -2))
    added = _padded(where(same, scores.beside(_LOWEST), 0.0), [0, 2], _LOWEST, front=True)
    return _padded(within(added, -1), [0, 0, 2], 0.0, front=True)


def _read_losses(operator: Operator, alphas: Term, frames: Term, lengths: Term, last: Term) -> Term:
    """Return the loss of every sequence: of the last place and the one before it, after its last frame.

    One that cannot be made of so many frames is infinite, or 0 with `zero_infinity`.
    """
    b = alphas.b
    count = _static(b, alphas, -1, "labels")
    at = within(within((frames - 1).clip(0), 0), -1)
    at = Term(b, b.op("Expand", at.value, b.constant([1, 1, count])))
    ended = without(alphas.op("GatherElements", at, axis=0), 0)
    previous = ended.op("GatherElements", (last - 1).clip(0), axis=1)
    previous = where(last > 0, previous, _LOWEST)
    found = -_sum_of_logarithms(joined([ended.op("GatherElements", last, axis=1), previous], 1))
    impossible = 0.0 if operator.int("zero_infinity") else math.inf
    found = where(found > -_LOWEST / 10, impossible, found)
    return where(frames > 0, found, where(lengths > 0, found.beside(impossible), 0.0))


def _padded(x: Term, sizes: Sequence[int], fill: float, *, front: bool = False) -> Term:
    none = [0] * len(sizes)
    pads = [*sizes, *none] if front else [*none, *sizes]
    return x.op("Pad", whole(x, *pads), fill)


def _sum_of_logarithms(x: Term) -> Term:
    return x.op("ReduceLogSumExp", whole(x, -1), keepdims=0)


TABLE.add(
    "CTCLoss",
    inputs="log_probs labels input_lengths target_lengths",
    attributes=[
        AttributeSpec("blank", "int", default=0),
        AttributeSpec("zero_infinity", "int", default=0),
    ],
    infer=_infer_alignment,
    expand=_expand_alignment,
    summary="minus the logarithm of how likely scores (frames, batch, classes) make each row of labels",
    traits=Traits(heavy=True),
)
