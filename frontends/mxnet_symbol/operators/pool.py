"""Pooling: maximum, average, sum and lp, in MXNet's two rounding conventions, global and adaptive."""

from __future__ import annotations

from math import prod
from typing import Any

from ....ir import Value
from ..call import Use, new_table
from .conv import check_layout, spatial

TABLE = new_table()


@TABLE.op("Pooling", "Pooling_v1")
def pooling(use: Use) -> Value:
    """The stride is 1 unless told; averages count padding unless told."""
    kind = use.attrs.text("pool_type", "max")
    power = use.attrs.optional_int("p_value")
    everything = use.attrs.flag("global_pool")
    convention = use.attrs.text("pooling_convention", "valid")
    rank = use.rank(use.x) - 2
    check_layout(use)
    use.attrs.ignore("cudnn_off")
    if kind not in ("max", "avg", "sum", "lp") or (kind == "lp" and power not in (1, 2, 3)):
        raise use.unsupported(
            f"expected a pool_type max, avg, sum or lp with p_value 1 to 3, got {kind} {power}"
        )
    if everything:
        use.attrs.ignore("kernel", "stride", "pad", "count_include_pad")
        return _global(use, kind, power)
    kernel = spatial(use, "kernel", rank, 1)
    window: dict[str, Any] = {
        "kernel_shape": kernel,
        "strides": spatial(use, "stride", rank, 1),
        "pads": spatial(use, "pad", rank, 0) * 2,
    }
    padding_counts = use.attrs.flag("count_include_pad", default=True)
    if convention not in ("valid", "full"):
        raise use.unsupported(f"expected the pooling_convention valid or full, got {convention}")
    if kind == "lp":
        return _lp(use, power or 1, convention, window)
    if convention == "full":
        mode = {"max": "max", "avg": "average", "sum": "sum"}[kind]
        return use.b.op("regraft.FullPool", use.x, mode=mode, count_include_pad=padding_counts, **window)
    if kind == "max":
        return use.b.op("MaxPool", use.x, **window)
    if kind == "avg":
        return use.b.op("AveragePool", use.x, count_include_pad=padding_counts, **window)
    return _sum(use, use.x, window)


def _sum(use: Use, x: Value, window: dict[str, Any]) -> Value:
    mean = use.b.op("AveragePool", x, count_include_pad=1, **window)
    return use.b.op("Mul", mean, use.b.scalar_like(prod(window["kernel_shape"]), mean))


def _lp(use: Use, power: int, convention: str, window: dict[str, Any]) -> Value:
    raised = _raised(use, power)
    if convention == "full":
        total = use.b.op("regraft.FullPool", raised, mode="sum", count_include_pad=1, **window)
    else:
        total = _sum(use, raised, window)
    return _root(use, total, power)


def _raised(use: Use, power: int) -> Value:
    return use.x if power == 1 else use.b.op("Pow", use.x, use.b.scalar_like(power, use.x))


def _root(use: Use, total: Value, power: int) -> Value:
    """The root of a sum of powers; MXNet's odd powers and roots keep the sign."""
    b = use.b
    if power == 1:
        return total
    if power == 2:
        return b.op("Sqrt", total)
    root = b.op("Pow", b.op("Abs", total), b.scalar_like(1 / power, total))
    return b.op("Mul", b.op("Sign", total), root)


def _global(use: Use, kind: str, power: int | None) -> Value:
    b, x = use.b, use.x
    if kind == "max":
        return b.op("GlobalMaxPool", x)
    if kind == "avg":
        return b.op("GlobalAveragePool", x)
    axes = b.constant(list(range(2, use.rank(x))))
    power = 1 if kind == "sum" else power or 1
    return _root(use, b.op("ReduceSum", _raised(use, power), axes), power)


@TABLE.op("_contrib_AdaptiveAvgPooling2D")
def adaptive_average_pooling(use: Use) -> Value:
    """Averages of a given output size, one unless told."""
    size = use.attrs.ints("output_size", ()) or [1]
    return use.b.op("regraft.AdaptiveAveragePool", use.x, output_size=size * 2 if len(size) == 1 else size)
