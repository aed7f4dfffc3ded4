"""Whole numbers of 8 bits for floats, and back; the ranges go along as values."""

from __future__ import annotations

from ....ir import Value
from ....ir.composites.terms import Term, maximum
from ...lowering_table import LoweringTable
from ..call import Call

TABLE = LoweringTable[Call]("MXNet")

_STEPS = {"int8": 127.5, "uint8": 255.5}
"""Steps from 0 to the end of the range, as MXNet's CPU kernels have them (measured)."""


@TABLE.op("_contrib_quantize_v2")
def quantize(call: Call) -> list[Value]:
    """Whole numbers of 8 bits, and the smallest and largest float that they stand for."""
    x = Term(call.b, call.value(0))
    kind = call.text("out_type", "int8")
    low, high = (call.text(f"{end}_calib_range", "None") for end in ("min", "max"))
    known = "None" not in (low, high)
    if known:
        ends = [call.float(f"{end}_calib_range") for end in ("min", "max")]
        kind = ("uint8" if ends[0] >= 0 else "int8") if kind == "auto" else kind
        reach, least, most = (
            Term(call.b, call.constant([end], "float32")) for end in (max(map(abs, ends)), *ends)
        )
    else:
        flat = Term(call.b, call.op("Reshape", x.value, call.constant([-1])))
        least, most = (flat.op(name, keepdims=1) for name in ("ReduceMin", "ReduceMax"))
        reach = maximum(abs(least), abs(most))
    if kind not in ("int8", "uint8"):
        raise call.unsupported(f"expected the out_type int8 or uint8, or auto with a range, got {kind}")
    steps = (x * (_STEPS[kind] / reach)).op("Round")
    if kind == "uint8":
        return [steps.clip(0, 255).cast("uint8").value, least.value, most.value]
    return [steps.clip(-128, 127).cast("int8").value, (-reach).value, reach.value]


@TABLE.op("_contrib_dequantize")
def dequantize(call: Call) -> Value:
    """Return floats from whole numbers of 8 bits and the range that they stand for."""
    x, least, most = (Term(call.b, v) for v in call.operands())
    call.ignore("out_type")
    if x.dtype not in _STEPS:
        raise call.unsupported(f"expected data of int8 or uint8, got {x.dtype}")
    return (x.cast("float32") * (maximum(abs(least), abs(most)) / _STEPS[x.dtype])).value
