"""Emitters of reductions."""

from __future__ import annotations

from ..symbol import EmitterTable, Reference, View

TABLE = EmitterTable()


_REDUCTIONS = {
    "ReduceSum": "sum",
    "ReduceMean": "mean",
    "ReduceMax": "max",
    "ReduceMin": "min",
    "ReduceProd": "prod",
}


@TABLE.op(*_REDUCTIONS)
def reduction(e: View) -> Reference:
    """Emit sum, mean, max, min or prod."""
    axes = e.ints(1) if e.has(1) else list(range(len(e.shape())))
    return e.node(
        _REDUCTIONS[e.operator.op_type], [e.input()], axis=axes, keepdims=bool(e.operator.int("keepdims"))
    )


@TABLE.op("ReduceL1", "ReduceL2")
def norm(e: View) -> Reference:
    """Emit norm of the order 1 or 2."""
    axes = e.ints(1) if e.has(1) else list(range(len(e.shape())))
    keep = bool(e.operator.int("keepdims"))
    return e.node("norm", [e.input()], ord=int(e.operator.op_type[-1]), axis=axes, keepdims=keep)


@TABLE.op("ReduceSumSquare")
def sum_of_squares(e: View) -> Reference:
    """Emit sum of square."""
    axes = e.ints(1) if e.has(1) else list(range(len(e.shape())))
    squared = e.node("square", [e.input()])
    return e.node("sum", [squared], axis=axes, keepdims=bool(e.operator.int("keepdims")))


@TABLE.op("ReduceLogSumExp")
def log_of_sum(e: View) -> Reference:
    """Emit the log of a sum of exponentials around the largest, kept finite since inf - inf is NaN."""
    axes = e.ints(1) if e.has(1) else list(range(len(e.shape())))
    keep = bool(e.operator.int("keepdims"))
    most = 3.4e38 if e.type().dtype != "float16" else 65504.0  # the largest float32 is read as infinite
    largest = e.node("max", [e.input()], axis=axes, keepdims=True)
    largest = e.node("clip", [largest], a_min=-most, a_max=most)
    around = e.node("exp", [e.node("broadcast_sub", [e.input(), largest])])
    found = e.node("log", [e.node("sum", [around], axis=axes, keepdims=True)])
    found = e.node("elemwise_add", [found, largest])
    return found if keep else e.node("sum", [found], axis=axes, keepdims=False)


@TABLE.op("ArgMax", "ArgMin")
def arg_extreme(e: View) -> Reference:
    """Emit argmax or argmin, whose result is float32 in MXNet."""
    o = e.operator
    found = e.node(o.op_type.lower(), [e.input()], axis=o.int("axis"), keepdims=bool(o.int("keepdims")))
    return e.node("Cast", [found], dtype="int64")


@TABLE.op("CumSum")
def cumulative_sum(e: View) -> Reference:
    """Emit _np_cumsum: between reversals if from the end, moved on by one if exclusive."""
    (axis,) = e.ints(1)
    axis %= len(e.shape())
    reverse, summed = bool(e.operator.int("reverse")), e.input()
    if reverse:
        summed = e.node("reverse", [summed], axis=(axis,))
    if e.operator.int("exclusive"):
        first = e.node("slice_axis", [summed], axis=axis, begin=0, end=1)
        rest = e.node("slice_axis", [summed], axis=axis, begin=0, end=-1)
        summed = e.node("Concat", [e.node("zeros_like", [first]), rest], dim=axis, num_args=2)
    summed = e.node("_np_cumsum", [summed], axis=axis)
    return e.node("reverse", [summed], axis=(axis,)) if reverse else summed
