"""Stubs and prints: what a person is to write, and what the source printed."""

from __future__ import annotations

import json
from collections.abc import Iterator

from ...source.emitting import Argument, Call, EmitterTable, Expression, Literal, Refused, View
from ...source.expressions import KEPT, Helper, Part, Quoted, Tuple, call

TABLE = EmitterTable()

STUB = '''class Unsupported(nn.Module):
    """STUB: an operator that regraft cannot write. Replace each one by a module that computes it.

    Args:
        source: the call in the source; x0, x1, … are the arguments of `forward`, in order.
        outputs: types and shapes of the results that the net uses.
        reason: why it is a stub.
    """

    def __init__(self, source, outputs, reason):
        super().__init__()
        self.source, self.outputs, self.reason = source, outputs, reason

    def forward(self, *inputs):
        raise NotImplementedError(f"{self.source} -> {self.outputs}: {self.reason}")
'''
"""The class of stubs in an emitted file."""


@TABLE.call("regraft.Stub")
def stub(view: View) -> Expression:
    """Emit a call of an `Unsupported` module of its own."""
    used = view.used_outputs()
    outputs = ", ".join(str(t) for t in view.operator.types[:used])
    # ``fft_rfft`` of ``aten.fft_rfft.default``
    name = "".join(view.operator.str("operator").split(".")[:2][-1:])
    texts = (view.operator.str("call"), outputs, view.operator.str("reason"))
    hints = ("source", "outputs", "reason")
    arguments = tuple(Argument("", Literal(t, h)) for t, h in zip(texts, hints, strict=True))
    attribute = view.scope.attribute(name, Call(Helper("Unsupported"), arguments))
    found = call(attribute, *(view.use(slot) for slot in range(len(view.operands))))
    return Expression(found.parts, outputs=used)


@TABLE.call("regraft.Print")
def print_value(view: View) -> Expression:
    """Emit the value, and the print as a statement of its own."""
    if view.operator.str("kind") != "Print":
        raise Refused
    slots = iter(range(1, len(view.operands)))
    printed = json.loads(view.operator.str("parts"))
    arguments = tuple(Argument("", _part(view, item, slots)) for item in printed)
    return Expression((view.use(0, KEPT), Call("print", arguments)))


def _part(view: View, item: object, slots: Iterator[int]) -> Part:
    if item is None:
        return view.use(next(slots))
    if isinstance(item, str):
        return Quoted(item)
    if isinstance(item, list):
        return Tuple(tuple(_part(view, inner, slots) for inner in item))
    if isinstance(item, (bool, int, float)):
        return Literal(item, "printed")
    raise Refused
