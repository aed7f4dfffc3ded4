"""Losses whose kernels are as accurate as the expansions and have a gradient.

Measured on CPU: `ops.ctc_loss` is within 3e-7 of float64, gradient 2e-6, and takes no float16. Where frames
are fewer than labels its kernel fails, whatever `zero_infinity` says; such sequences are written out.
`ops.nll_loss` is exact; `ops.cross_entropy` is 4e-6 off, as its logarithm of softmax is.
"""

from __future__ import annotations

from ...source.emitting import EmitterTable, Expression, Refused, View
from ...source.expressions import Element, Helper, Part, Quoted, call, method

TABLE = EmitterTable()


def _require_enough_frames(view: View) -> None:
    """Require that every sequence has at least as many frames as labels."""
    frames, lengths, width = view.constant(2), view.constant(3), view.shape(1)[-1]
    if frames is None or not isinstance(width, int):
        raise Refused
    if not (frames >= (width if lengths is None else lengths)).all():
        raise Refused


@TABLE.call("regraft.CTCLoss")
def ctc_loss(view: View) -> Expression:
    """ops.ctc_loss, the losses of all sequences."""
    if view.type(0).dtype not in ("float32", "float64"):
        raise Refused
    _require_enough_frames(view)
    found = call(
        "ops.ctc_loss",
        *(view.tensor(slot) for slot in range(4)),
        blank=view.operator.int("blank") or None,
        reduction="none",
        zero_infinity=True if view.operator.int("zero_infinity") else None,
    )
    return Expression((Element(found, 0),))


@TABLE.call("NegativeLogLikelihoodLoss")
def negative_log_likelihood(view: View) -> Expression:
    """Emit ops.nll_loss."""
    return _of_classes(view, view.tensor(0))


@TABLE.call("SoftmaxCrossEntropyLoss")
def softmax_cross_entropy(view: View) -> Expression:
    """Emit ops.nll_loss of the file's own log_softmax; of ops.log_softmax for what was MindSpore's."""
    if view.used_outputs() > 1:
        raise Refused
    is_own = view.graph.origin.framework != "mindspore"
    logarithms = (
        call(Helper("log_softmax"), view.use(0), 1)
        if is_own
        else call("ops.log_softmax", view.use(0), axis=1)
    )
    return _of_classes(view, logarithms)


def _of_classes(view: View, logarithms: Part) -> Expression:
    """Return the loss of the classes on axis 1, whose kernel takes labels of int32."""
    if view.type(0).dtype != "float32" or view.rank() < 2:
        raise Refused
    labels: Part = view.tensor(1)
    if view.type(1).dtype != "int32":
        labels = method(view.atom(1), "astype", Expression(("ms.int32",)))
    return call(
        "ops.nll_loss",
        logarithms,
        labels,
        weight=view.tensor(2) if view.has(2) else None,
        ignore_index=view.operator.attribute("ignore_index"),
        reduction=Quoted(view.operator.str("reduction")),
    )
