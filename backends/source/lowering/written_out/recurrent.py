"""Recurrent operators in ONNX's other layout."""

from __future__ import annotations

from collections.abc import Sequence

from .....ir import Builder, Operator, Value
from .....ir.composites.terms import Term
from .table import ExpansionTable, given

TABLE = ExpansionTable()


@TABLE.op("LSTM", "GRU", "RNN")
def batch_first(b: Builder, node: Operator, operands: Sequence[Value | None]) -> list[Term] | None:
    """Return the axes of the batch and of the sequence change places, before and after."""
    if not node.int("layout"):
        return None
    swapped = {
        slot: term.op("Transpose", perm=[1, 0, 2])
        for slot, term in enumerate(given(b, operands, 8))
        if term and slot in (0, 5, 6)
    }
    inner = [swapped[slot].value if slot in swapped else value for slot, value in enumerate(operands)]
    attributes = {**node.attributes, "layout": 0}
    y, *states = (Term(b, v) for v in b.ops(node.op_type, *inner, outputs=len(node.types), **attributes))
    return [
        y.op("Transpose", perm=[2, 0, 1, 3]),
        *(state.op("Transpose", perm=[1, 0, 2]) for state in states),
    ]
