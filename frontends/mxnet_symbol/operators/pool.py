"""Pooling: maximum, average, sum and lp, in MXNet's two rounding conventions, global and adaptive."""

from __future__ import annotations

from math import prod
from typing import Any

from ....ir import Value
from ...lowering_table import LoweringTable
from ..call import Call
from .conv import check_layout, spatial

TABLE = LoweringTable[Call]("MXNet")

_LAST = ("NWC", "NHWC", "NDHWC")


@TABLE.op("Pooling", "Pooling_v1")
def pooling(call: Call) -> Value:
    """Lower a pool, whose stride is 1 and whose averages count padding by default."""
    rank = call.rank() - 2
    call.ignore("cudnn_off")
    x = call.value(0)
    if call.text("layout", "None") in _LAST:
        found = _pooled(call, call.op("Transpose", x, perm=[0, rank + 1, *range(1, rank + 1)]), rank)
        return call.op("Transpose", found, perm=[0, *range(2, rank + 2), 1])
    check_layout(call)
    return _pooled(call, x, rank)


def _pooled(call: Call, x: Value, rank: int) -> Value:
    """Pool over the axes after the channels."""
    kind = call.text("pool_type", "max")
    power = call.optional_int("p_value")
    everything = call.flag("global_pool")
    convention = call.text("pooling_convention", "valid")
    if kind not in ("max", "avg", "sum", "lp") or (kind == "lp" and power not in (1, 2, 3)):
        raise call.unsupported(
            f"expected a pool_type max, avg, sum or lp with p_value 1 to 3, got {kind} {power}"
        )
    if everything:
        call.ignore("kernel", "stride", "pad", "count_include_pad")
        return _global(call, x, kind, power)
    kernel = spatial(call, "kernel", rank, 1)
    window: dict[str, Any] = {
        "kernel_shape": kernel,
        "strides": spatial(call, "stride", rank, 1),
        "pads": spatial(call, "pad", rank, 0) * 2,
    }
    padding_counts = call.flag("count_include_pad", default=True)
    if convention not in ("valid", "full"):
        raise call.unsupported(f"expected the pooling_convention valid or full, got {convention}")
    if kind == "lp":
        return _lp(call, x, power or 1, convention, window)
    if convention == "full":
        mode = {"max": "max", "avg": "average", "sum": "sum"}[kind]
        return call.op("regraft.FullPool", x, mode=mode, count_include_pad=padding_counts, **window)
    if kind == "max":
        return call.op("MaxPool", x, **window)
    if kind == "avg":
        return call.op("AveragePool", x, count_include_pad=padding_counts, **window)
    return _sum(call, x, window)


def _sum(call: Call, x: Value, window: dict[str, Any]) -> Value:
    mean = call.op("AveragePool", x, count_include_pad=1, **window)
    return call.op("Mul", mean, call.scalar_like(prod(window["kernel_shape"]), mean))


def _lp(call: Call, x: Value, power: int, convention: str, window: dict[str, Any]) -> Value:
    raised = _raised(call, x, power)
    if convention == "full":
        total = call.op("regraft.FullPool", raised, mode="sum", count_include_pad=1, **window)
    else:
        total = _sum(call, raised, window)
    return _root(call, total, power)


def _raised(call: Call, x: Value, power: int) -> Value:
    return x if power == 1 else call.op("Pow", x, call.scalar_like(power, x))


def _root(call: Call, total: Value, power: int) -> Value:
    """Return the root of a sum of powers; MXNet's odd powers and roots keep the sign."""
    if power == 1:
        return total
    if power == 2:
        return call.op("Sqrt", total)
    root = call.op("Pow", call.op("Abs", total), call.scalar_like(1 / power, total))
    return call.op("Mul", call.op("Sign", total), root)


def _global(call: Call, x: Value, kind: str, power: int | None) -> Value:
    if kind == "max":
        return call.op("GlobalMaxPool", x)
    if kind == "avg":
        return call.op("GlobalAveragePool", x)
    axes = call.constant(list(range(2, call.rank(x))))
    power = 1 if kind == "sum" else power or 1
    return _root(call, call.op("ReduceSum", _raised(call, x, power), axes), power)


@TABLE.op("_contrib_AdaptiveAvgPooling2D")
def adaptive_average_pooling(call: Call) -> Value:
    """Return averages of a given output size, one by default."""
    size = call.ints("output_size", ()) or [1]
    return call.op(
        "regraft.AdaptiveAveragePool", call.value(0), output_size=size * 2 if len(size) == 1 else size
    )
