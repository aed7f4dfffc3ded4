"""Losses."""

from __future__ import annotations

from ...source.emitting import EmitterTable, Expression, Refused, View
from ...source.expressions import Literal, Quoted, call

TABLE = EmitterTable()


@TABLE.call("NegativeLogLikelihoodLoss")
def negative_log_likelihood(view: View) -> Expression:
    """Emit F.nll_loss."""
    return _of_classes(view, "F.nll_loss")


@TABLE.call("SoftmaxCrossEntropyLoss")
def softmax_cross_entropy(view: View) -> Expression:
    """Emit F.cross_entropy."""
    if view.used_outputs() > 1:
        raise Refused
    return _of_classes(view, "F.cross_entropy")


def _of_classes(view: View, function: str) -> Expression:
    if view.rank() < 2 or view.type(1).dtype != "int64":
        raise Refused
    reduction = view.operator.str("reduction")
    return call(
        function,
        view.tensor(0),
        view.tensor(1),
        weight=view.tensor(2) if view.has(2) else None,
        ignore_index=view.operator.attribute("ignore_index"),
        reduction=None if reduction == "mean" else Quoted(reduction),
    )


@TABLE.call("regraft.CTCLoss")
def ctc_loss(view: View) -> Expression:
    """Emit F.ctc_loss, the losses of all sequences; known lengths are numbers, which torch.export takes."""
    known = [view.constant(slot) for slot in (2, 3)]
    lengths = [
        view.tensor(slot) if found is None else Literal(tuple(found.reshape(-1).tolist()), "lengths")
        for slot, found in zip((2, 3), known, strict=True)
    ]
    return call(
        "F.ctc_loss",
        view.tensor(0),
        view.tensor(1),
        *lengths,
        blank=view.operator.int("blank") or None,
        reduction=Quoted("none"),
        zero_infinity=True if view.operator.int("zero_infinity") else None,
    )
