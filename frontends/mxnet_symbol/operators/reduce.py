"""Reductions; MXNet has no arrays without dimensions, so that a full one gives the shape (1,)."""

from __future__ import annotations

from ....ir import Value
from ..call import Use, new_table

TABLE = new_table()

_REDUCTIONS = {
    "sum": "ReduceSum",
    "mean": "ReduceMean",
    "max": "ReduceMax",
    "min": "ReduceMin",
    "prod": "ReduceProd",
}


def _axes(use: Use, rank: int) -> tuple[list[int], bool]:
    """The axes to reduce, and whether they are kept with size 1."""
    given = use.attrs.optional_ints("axis")
    axes = [use.axis(a, rank) for a in given or [] if a is not None]
    if use.attrs.flag("exclude"):
        axes = [a for a in range(rank) if a not in axes]
    elif not axes:
        axes = list(range(rank))
    return axes, use.attrs.flag("keepdims")


def _finish(use: Use, y: Value) -> Value:
    return use.b.op("Reshape", y, use.b.constant([1])) if use.rank(y) == 0 else y


def _reduce(use: Use, target: str, x: Value, axes: list[int], *, keep: bool) -> Value:
    if not axes:
        return x
    return _finish(use, use.b.op(target, x, use.b.constant(axes), keepdims=keep))


@TABLE.op(*_REDUCTIONS)
def reduction(use: Use) -> Value:
    """Over `axis`, or over all but it with `exclude`."""
    axes, keep = _axes(use, use.rank(use.x))
    if use.attrs.text("dtype", "None") != "None":
        raise use.unsupported("expected no dtype to accumulate in")
    return _reduce(use, _REDUCTIONS[use.node.op], use.x, axes, keep=keep)


@TABLE.op("nansum", "nanprod")
def reduction_without_nan(use: Use) -> Value:
    """Sums and products that leave NaN out."""
    b, x = use.b, use.x
    axes, keep = _axes(use, use.rank(x))
    neutral = 0 if use.node.op == "nansum" else 1
    clean = b.op("Where", b.op("IsNaN", x), b.scalar_like(neutral, x), x)
    return _reduce(use, _REDUCTIONS[use.node.op.removeprefix("nan")], clean, axes, keep=keep)


@TABLE.op("norm")
def norm(use: Use) -> Value:
    """The sum of absolute values, or the root of the sum of squares."""
    order = use.attrs.int("ord", 2)
    axes, keep = _axes(use, use.rank(use.x))
    use.attrs.ignore("out_dtype")
    if order not in (1, 2):
        raise use.unsupported(f"expected ord 1 or 2, got {order}")
    return _reduce(use, f"ReduceL{order}", use.x, axes, keep=keep)


@TABLE.op("argmax", "argmin")
def arg_extreme(use: Use) -> Value:
    """Where the extreme is, as float32; without an axis in the flattened data."""
    b, x, axis = use.b, use.x, use.attrs.optional_int("axis")
    keep = use.attrs.flag("keepdims")
    target = "ArgMax" if use.node.op == "argmax" else "ArgMin"
    if axis is None:
        flat = b.op("Reshape", x, b.constant([-1]))
        found, rank = b.op(target, flat, axis=0, keepdims=1), use.rank(x)
        found = b.op("Reshape", found, b.constant([1] * rank)) if keep else found
    else:
        found = _finish(use, b.op(target, x, axis=use.axis(axis, use.rank(x)), keepdims=keep))
    return use.cast(found, "float32")


@TABLE.op("argmax_channel")
def argmax_channel(use: Use) -> Value:
    """Where the maximum along axis 1 is, in the type of the data."""
    return use.cast(use.b.op("ArgMax", use.x, axis=1, keepdims=0), use.dtype(use.x))


@TABLE.op("moments")
def moments(use: Use) -> list[Value]:
    """Mean and variance."""
    b, x, keep = use.b, use.x, use.attrs.flag("keepdims")
    given = use.attrs.optional_ints("axes") or range(use.rank(x))
    axes = b.constant([use.axis(a or 0, use.rank(x)) for a in given])
    centred = b.op("Sub", x, b.op("ReduceMean", x, axes))
    mean, variance = (b.op("ReduceMean", v, axes, keepdims=keep) for v in (x, b.op("Mul", centred, centred)))
    return [_finish(use, mean), _finish(use, variance)]
