"""Random numbers: the law is the source's, the numbers are each run's own."""

from __future__ import annotations

from typing import Any

from ....ir import Value, onnx_dtype
from ...lowering_table import LoweringTable
from ..call import Call

TABLE = LoweringTable[Call]("MXNet")

_LAWS = {
    "uniform": ("RandomUniform", {"low": ("low", 0.0), "high": ("high", 1.0)}),
    "normal": ("RandomNormal", {"mean": ("loc", 0.0), "scale": ("scale", 1.0)}),
}
"""Law -> ONNX's operator, and its attributes by those of MXNet with their defaults."""


def _law(call: Call) -> tuple[str, dict[str, Any]]:
    name, attributes = _LAWS[call.operator.removesuffix("_like").rpartition("_")[2]]
    return name, {to: call.float(key, default) for to, (key, default) in attributes.items()}


@TABLE.op("_random_uniform", "_random_normal")
def drawn(call: Call) -> Value:
    """Numbers of a law, of a given shape."""
    call.ignore("ctx")
    name, attributes = _law(call)
    shape, dtype = call.ints("shape", (1,)), call.text("dtype", "float32")
    call.bounded(_elements(shape))
    return call.op(name, shape=shape, dtype=onnx_dtype("float32" if dtype == "None" else dtype), **attributes)


@TABLE.op("_random_uniform_like", "_random_normal_like")
def drawn_like(call: Call) -> Value:
    """Numbers of a law, of the shape and type of another value."""
    name, attributes = _law(call)
    return call.op(f"{name}Like", call.value(0), **attributes)


@TABLE.op("_sample_multinomial")
def multinomial(call: Call) -> Value:
    """Numbers of classes by their probabilities, `shape` of them for each row."""
    x, shape = call.value(0), call.ints("shape", ())
    dtype = call.text("dtype", "int32")
    if call.flag("get_prob"):
        raise call.unsupported("expected get_prob=False, got True, whose gradient only training needs")
    count = _elements(shape)
    call.bounded(count)
    rows = x if call.rank(x) == 2 else call.op("Unsqueeze", x, call.constant([0]))
    kind = dtype if dtype in ("int32", "int64") else "int64"
    rows = call.cast(rows, "float32")
    found = call.op("Multinomial", call.op("Log", rows), sample_size=count, dtype=onnx_dtype(kind))
    lead = call.shape(x)[:-1]
    return call.reshape(call.cast(found, dtype), [*lead, *shape] if shape or lead else [1])


def _elements(shape: list[int]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count
