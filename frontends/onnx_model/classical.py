"""Operators of ``ai.onnx.ml`` that stand around networks of scikit-learn, written out in ONNX's."""

from __future__ import annotations

import onnx

from ...ir import Value
from ...ir.table import Table
from .call import Call
from .fused_quantised import Rule

CLASSICAL = Table[Rule]()
"""Operator of ``ai.onnx.ml`` -> what it becomes."""


@CLASSICAL.op("ArrayFeatureExtractor")
def feature_extractor(call: Call) -> Value:
    """Return elements along the last axis; a vector is a row."""
    places = call.op("Reshape", call.value(1), call.ints([-1]))
    found = call.op("Gather", call.value(0), places, axis=-1)
    return found if call.rank() > 1 else call.op("Unsqueeze", found, call.ints([0]))


def _as_float(call: Call) -> Value:
    x = call.value(0)
    return x if call.dtype() == "float32" else call.op("Cast", x, to=onnx.TensorProto.FLOAT)


@CLASSICAL.op("Scaler")
def scaler(call: Call) -> Value:
    """Return features minus their offsets, times their scales, in float32."""
    offset, scale = call.take("offset", []), call.take("scale", [])
    x = _as_float(call)
    if offset:
        x = call.op("Sub", x, call.constant(offset, "float32"))
    return call.op("Mul", x, call.constant(scale, "float32")) if scale else x


@CLASSICAL.op("Normalizer")
def normaliser(call: Call) -> Value:
    """Return rows divided by their norm, in float32; rows without one as they are."""
    kind = call.take("norm", "MAX")
    x = _as_float(call)
    reduced = {"L1": "ReduceL1", "L2": "ReduceL2", "MAX": "ReduceMax"}.get(kind)
    if reduced is None or call.rank() > 2:
        raise call.unsupported(f"expected L1, L2 or MAX of a matrix or a vector, got {kind}")
    norm = call.op(reduced, x, call.ints([-1]), keepdims=1)
    one, zero = (call.constant(number, "float32") for number in (1.0, 0.0))
    return call.op("Div", x, call.op("Where", call.op("Equal", norm, zero), one, norm))
