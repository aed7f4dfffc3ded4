"""Lowerings of Fourier transforms along one axis."""

from __future__ import annotations

from ....ir import Value
from ...lowering_table import LoweringTable
from ..call import Call

TABLE = LoweringTable[Call]("torch")


@TABLE.op("regraft.fourier.default")
def fourier(call: Call) -> list[Value]:
    """Return both parts of the transform of real numbers, or of complex ones."""
    x, imag = call.value("x"), call.optional("imag")
    said = {"norm": call.text("norm"), "inverse": call.flag("inverse"), "half": call.flag("half")}
    return call.ops("regraft.Fourier", x, imag, outputs=2, axis=call.axis("axis"), **said)


@TABLE.op("regraft.real_fourier.default")
def real_fourier(call: Call) -> Value:
    """Return the real signal of which half of the transform is given."""
    real, imag = call.value("real"), call.value("imag")
    said = {"norm": call.text("norm"), "inverse": call.flag("inverse"), "n": call.int("n")}
    return call.op("regraft.RealFourier", real, imag, axis=call.axis("axis"), **said)
