"""Stubs: operators that a person is to write are calls of a module that names them, and raises."""

from __future__ import annotations

from ..emitting import Argument, Call, EmitterTable, Expression, Literal, View
from ..expressions import Helper, Part, call

TABLE = EmitterTable()


@TABLE.call("regraft.Stub")
def stub(view: View) -> Expression:
    """Emit a call of an `Unsupported` module of its own."""
    used = view.used_outputs()
    outputs = ", ".join(str(t) for t in view.operator.types[:used])
    # ``fft_rfft`` of ``aten.fft_rfft.default``
    name = "".join(view.operator.str("operator").split(".")[:2][-1:])
    texts = (view.operator.str("call"), outputs, view.operator.str("reason"))
    arguments = tuple(Argument("", Literal(t, h)) for t, h in zip(texts, _HINTS, strict=True))
    attribute = view.scope.attribute(name, Call(Helper("Unsupported"), arguments))
    operands: list[Part] = [view.use(slot) for slot in range(len(view.operands))]
    found = call(attribute, *operands)
    return Expression(found.parts, outputs=used)


_HINTS = ("source", "outputs", "reason")
