"""Stubs: operators that a person is to write become a Cell that names them, and raises."""

from __future__ import annotations

from ...source.emitting import Argument, Call, EmitterTable, Expression, Literal, View
from ...source.expressions import Helper, Part, call

TABLE = EmitterTable()

STUB = '''class Unsupported(nn.Cell):
    """STUB: an operator that regraft cannot write. Replace each one by a Cell that computes it.

    Args:
        source: the call in the source; x0, x1, … are the inputs of `construct`, in order.
        outputs: types and shapes of the results that the net uses.
        reason: why it is a stub.
    """

    def __init__(self, source, outputs, reason):
        super().__init__()
        self.source, self.outputs, self.reason = source, outputs, reason

    def construct(self, *inputs):
        raise NotImplementedError(f"{self.source} -> {self.outputs}: {self.reason}")
'''
"""The class of stubs in an emitted file."""


@TABLE.call("regraft.Stub")
def stub(view: View) -> Expression:
    """Emit a call of an `Unsupported` cell of its own."""
    used = view.used_outputs()
    outputs = ", ".join(str(t) for t in view.operator.types[:used])
    name = "".join(
        view.operator.str("operator").split(".")[:2][-1:]
    )  # ``fft_rfft`` of ``aten.fft_rfft.default``
    texts = (view.operator.str("call"), outputs, view.operator.str("reason"))
    arguments = tuple(Argument("", Literal(t, h)) for t, h in zip(texts, _HINTS, strict=True))
    attribute = view.scope.attribute(name, Call(Helper("Unsupported"), arguments))
    operands: list[Part] = [view.use(slot) for slot in range(len(view.operands))]
    found = call(attribute, *operands)
    return Expression(found.parts, outputs=used)


_HINTS = ("source", "outputs", "reason")
