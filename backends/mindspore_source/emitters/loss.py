"""Losses whose kernels are as accurate as the expansions and have a gradient.

Measured on CPU: `ops.ctc_loss` is within 3e-7 of float64, gradient 2e-6, and takes no float16. Where frames
are fewer than labels its kernel fails, whatever `zero_infinity` says; such sequences are written out.
"""

from __future__ import annotations

from ..emitting import EmitterTable, Expression, Refused, View
from ..text.expressions import Element, call

TABLE = EmitterTable()


def _require_enough_frames(view: View) -> None:
    """Every sequence has as many frames as it may have labels."""
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
