"""Emitters of pools."""

from __future__ import annotations

import numpy as np

from ..symbol import EmitterTable, Reference, View
from .conv import window

TABLE = EmitterTable()


def _pool(e: View, kind: str, convention: str = "valid", **extra: object) -> Reference:
    o = e.operator
    kernel = o.ints("kernel_shape")
    full = convention == "full"
    if not full and (o.int("ceil_mode") or any(d != 1 for d in o.spatial("dilations", len(kernel)))):
        raise e.refused(
            "expected a pool without dilation that rounds down, or MXNet's own way of rounding up"
        )
    x, pad = e.input(), o.spatial("pads", len(kernel))
    counted = extra.get("count_include_pad", True)
    if pad[: len(kernel)] != pad[len(kernel) :] and not counted:
        raise e.refused("expected equal pads at both ends of an average that does not count them")
    x, pad = window(e, x, len(kernel), float(np.finfo(np.float32).min) if kind == "max" else 0.0)
    return e.node(
        "Pooling", [x], pool_type=kind, kernel=kernel, stride=o.spatial("strides", len(kernel)), pad=pad,
        pooling_convention=convention, **extra,
    )  # fmt: skip


@TABLE.op("MaxPool")
def max_pool(e: View) -> Reference:
    """Emit Pooling."""
    if len(e.operator.types) > 1:
        raise e.refused("expected a maximum pool without indices")
    return _pool(e, "max")


@TABLE.op("AveragePool")
def average_pool(e: View) -> Reference:
    """Emit Pooling."""
    return _pool(e, "avg", count_include_pad=bool(e.operator.int("count_include_pad")))


@TABLE.op("regraft.FullPool")
def full_pool(e: View) -> Reference:
    """Emit Pooling in the convention "full"."""
    mode = {"max": "max", "average": "avg", "sum": "sum"}[e.operator.str("mode")]
    if mode == "max":
        return _pool(e, mode, "full")
    return _pool(e, mode, "full", count_include_pad=bool(e.operator.int("count_include_pad")))


@TABLE.op("GlobalAveragePool", "GlobalMaxPool")
def global_pool(e: View) -> Reference:
    """Emit Pooling with `global_pool`."""
    kind = "avg" if e.operator.op_type == "GlobalAveragePool" else "max"
    return e.node("Pooling", e.inputs(), pool_type=kind, kernel=[1] * (len(e.shape()) - 2), global_pool=True)


@TABLE.op("regraft.AdaptiveAveragePool")
def adaptive_average_pool(e: View) -> Reference:
    """Emit _contrib_AdaptiveAvgPooling2D."""
    size = e.operator.ints("output_size")
    if len(size) != 2:
        raise e.refused("expected an adaptive pool over two axes, the only one that MXNet has")
    return e.node("_contrib_AdaptiveAvgPooling2D", e.inputs(), output_size=size)
