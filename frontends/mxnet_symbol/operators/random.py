"""Random numbers: the law is the source's, the numbers are each run's own."""

from __future__ import annotations

from typing import Any

from ....ir import Value, onnx_dtype
from ...lowering_table import LoweringTable
from ..call import Call

TABLE = LoweringTable[Call]("MXNet")

_EXACT = 1 << 24
"""Up to this, float32 tells whole numbers apart."""

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
    """Return numbers of a law, of a given shape."""
    call.ignore("ctx")
    name, attributes = _law(call)
    shape, dtype = call.ints("shape", (1,)), call.text("dtype", "float32")
    call.bounded(_elements(shape))
    return call.op(name, shape=shape, dtype=onnx_dtype("float32" if dtype == "None" else dtype), **attributes)


@TABLE.op("_random_uniform_like", "_random_normal_like")
def drawn_like(call: Call) -> Value:
    """Return numbers of a law, of the shape and type of another value."""
    name, attributes = _law(call)
    return call.op(f"{name}Like", call.value(0), **attributes)


def _exponential(call: Call, uniform: Value, rate: Value) -> Value:
    """Return numbers of the exponential law from those that are uniform between 0 and 1."""
    left = call.op("Sub", call.scalar_like(1, uniform), uniform)
    return call.op("Neg", call.op("Div", call.op("Log", left), rate))


@TABLE.op("_random_exponential", "_random_exponential_like")
def exponential(call: Call) -> Value:
    """Return numbers of the exponential law, of a given shape or that of another value."""
    call.ignore("ctx")
    rate = call.float("lam", 1.0)
    if call.operator.endswith("_like"):
        uniform = call.op("RandomUniformLike", call.value(0), low=0.0, high=1.0)
    else:
        shape, dtype = call.ints("shape", (1,)), call.text("dtype", "float32")
        call.bounded(_elements(shape))
        code = onnx_dtype("float32" if dtype == "None" else dtype)
        uniform = call.op("RandomUniform", shape=shape, dtype=code, low=0.0, high=1.0)
    return _exponential(call, uniform, call.scalar_like(rate, uniform))


@TABLE.op("_random_randint")
def whole_numbers(call: Call) -> Value:
    """Whole numbers from `low` to before `high`."""
    call.ignore("ctx")
    low, high, shape = call.int("low"), call.int("high"), call.ints("shape", (1,))
    dtype = call.text("dtype", "int32")
    call.bounded(_elements(shape))
    if not low < high or max(abs(low), abs(high)) > _EXACT:
        raise call.unsupported(f"expected bounds of at most {_EXACT} that rise, got {low} and {high}")
    drawn = call.op(
        "RandomUniform", shape=shape, dtype=onnx_dtype("float32"), low=float(low), high=float(high)
    )
    below = call.op(
        "Clip", call.op("Floor", drawn), call.constant(float(low)), call.constant(float(high - 1))
    )
    return call.cast(below, "int32" if dtype == "None" else dtype)


@TABLE.op("_sample_uniform", "_sample_normal", "_sample_exponential")
def sampled(call: Call) -> Value:
    """Return numbers of the laws whose parameters arrays give: `shape` of them for each of their elements."""
    parameters, shape = call.operands(), call.ints("shape", ())
    dtype = call.text("dtype", "None")
    own = call.static_shape(parameters[0])
    call.bounded(_elements([*own, *shape]))
    first, *others = (call.reshape(p, [*own, *[1] * len(shape)]) for p in parameters)
    place = call.op("Expand", first, call.constant([*own, *shape])) if shape else first
    if call.operator == "_sample_normal":
        drawn = call.op("RandomNormalLike", place, mean=0.0, scale=1.0)
        found = call.op("Add", first, call.op("Mul", drawn, others[0]))
    else:
        drawn = call.op("RandomUniformLike", place, low=0.0, high=1.0)
        if call.operator == "_sample_exponential":
            found = _exponential(call, drawn, first)
        else:
            found = call.op("Add", first, call.op("Mul", drawn, call.op("Sub", others[0], first)))
    return found if dtype == "None" else call.cast(found, dtype)


@TABLE.op("_shuffle")
def shuffled(call: Call) -> Value:
    """Return the rows in another order."""
    x = call.value(0)
    (count,) = call.static_shape(x, [0])
    drawn = call.op("RandomUniform", shape=[count], dtype=onnx_dtype("float32"), low=0.0, high=1.0)
    _, order = call.ops("TopK", drawn, call.constant([count]), outputs=2, axis=0)
    return call.op("Gather", x, order, axis=0)


@TABLE.op("_sample_multinomial")
def multinomial(call: Call) -> Value:
    """Return numbers of classes by their probabilities, `shape` of them for each row."""
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
