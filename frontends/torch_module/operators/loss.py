"""Lowerings of losses that torch computes in kernels of their own."""

from __future__ import annotations

from ....ir import Value
from ...lowering_table import LoweringTable
from ..call import Call

TABLE = LoweringTable[Call]("torch")


@TABLE.op("regraft.ctc_losses.default")
def ctc_losses(call: Call) -> Value:
    """Return the loss of each sequence; what is made of them torch says itself."""
    call.static_shape("log_probs", [0])  # each frame is a step
    call.static_shape("labels", [1])
    names = ("log_probs", "labels", "input_lengths", "target_lengths")
    operands = [call.value(name) for name in names]
    zero = call.flag("zero_infinity")
    return call.op("regraft.CTCLoss", *operands, blank=call.int("blank"), zero_infinity=zero)
