"""Lowerings of reductions, scans, sorting and selection of extremes."""

from __future__ import annotations

from math import prod

import numpy as np

from ....ir import Value
from ...lowering_table import Lowering, LoweringTable
from ..call import Call
from ..symbols import is_of_data

TABLE = LoweringTable[Call]("torch")


_OF_NOTHING = {"ReduceSum": 0, "ReduceProd": 1}
"""Result of a reduction of no elements; MindSpore's returns stale memory."""


def _is_of_nothing(call: Call) -> bool:
    axes = call.axes("dim") if "dim" in call else range(call.rank("self"))
    return any(call.shape("self")[a] == 0 for a in axes)


def _everywhere(call: Call, number: float | bool) -> Value:
    """Return a number in the shape of the result."""
    value = call.constant(number, call.dtype)
    return call.op("Expand", value, call.shape_value(call.result_shape)) if call.result_shape else value


def _reduction(op_type: str) -> Lowering[Call]:
    """Reduce over the given axes, or all; torch's `dtype` is the result's."""

    def reduction(call: Call) -> Value:
        call.ignore("dtype")
        x = call.cast(call.value("self"), call.dtype)
        keep = call.flag("keepdim", False)
        if op_type in _OF_NOTHING and _is_of_nothing(call):
            return _everywhere(call, _OF_NOTHING[op_type])
        x = call.cast(x, "int64") if call.dtype == "bool" else x  # ONNX reduces no truth values
        if "dim" not in call or call.arg("dim") in (None, []):
            return call.cast(call.op(op_type, x, keepdims=keep), call.dtype)
        return call.cast(call.op(op_type, x, call.constant(call.axes("dim")), keepdims=keep), call.dtype)

    return reduction


def _mean(call: Call, x: Value, axes: list[int], keep: bool) -> Value:
    """Return the mean; of nothing at all it is NaN in torch, 0 in ONNX Runtime and MindSpore."""
    along = call.constant(axes)
    if all(call.shape("self")[a] != 0 for a in axes):
        return call.op("ReduceMean", x, along, keepdims=keep)
    total = call.op("ReduceSum", x, along, keepdims=keep)
    return call.op("Add", total, call.scalar_like(np.nan, total))


@TABLE.op("aten.mean.dim", "aten.mean.default")
def mean(call: Call) -> Value:
    """Average over the given axes, or all."""
    call.ignore("dtype")
    keep = call.flag("keepdim", False)
    axes = call.axes("dim") if "dim" in call else []
    x = call.cast(call.value("self"), call.dtype)
    if not axes or len(axes) == call.rank("self"):
        every = list(range(call.rank("self")))
        if all(call.shape("self")[a] != 0 for a in every):
            return call.op("ReduceMean", x, keepdims=keep)
        return _mean(call, x, every, keep)
    return _mean(call, x, axes, keep)


TABLE.op("aten.sum.dim_IntList", "aten.sum.default")(_reduction("ReduceSum"))
TABLE.op("aten.prod.dim_int", "aten.prod.default")(_reduction("ReduceProd"))
TABLE.op("aten.logsumexp.default")(_reduction("ReduceLogSumExp"))


def _truth(op_type: str) -> Lowering[Call]:
    """Any and all, as the largest and smallest of 0 and 1."""

    def truth(call: Call) -> Value:
        x = call.cast(call.cast(call.value("self"), "bool"), "int32")
        keep = call.flag("keepdim", False)
        if _is_of_nothing(call):
            return _everywhere(call, op_type == "ReduceMin")
        axes = call.constant(call.axes("dim")) if "dim" in call else None
        found = call.op(op_type, x, axes, keepdims=keep)
        if op_type == "ReduceMax" and not all(isinstance(size, int) for size in call.shape("self")):
            return call.op("Greater", found, call.constant(0, "int32"))  # of none it is the least integer
        return call.cast(found, "bool")

    return truth


def _extreme(op_type: str) -> Lowering[Call]:
    """Reduce numbers to their extreme; truth values by any and all."""
    of_numbers, of_truth = _reduction(op_type), _truth(op_type)

    def extreme(call: Call) -> Value:
        if call.dtype == "bool":
            return of_truth(call)
        if call.operator.endswith(("max.default", "min.default")) and any(map(is_of_data, call.shape())):
            return _extreme_of_some(call, op_type)
        return of_numbers(call)

    return extreme


def _extreme_of_some(call: Call, op_type: str) -> Value:
    """Return the extreme of what data select, of which there may be none: then nothing reads it."""
    dtype = call.dtype_of("self")
    integers = np.iinfo(dtype) if "int" in dtype else None
    end = {"ReduceMax": integers and integers.min, "ReduceMin": integers and integers.max}[op_type]
    end = (-np.inf if op_type == "ReduceMax" else np.inf) if end is None else end
    flat = call.op("Reshape", call.value("self"), call.constant([-1]))
    further = call.cast(call.constant([end], "int64" if integers else "float32"), dtype)
    return call.op(op_type, call.op("Concat", flat, further, axis=0), keepdims=0)


TABLE.op("aten.amax.default", "aten.max.default")(_extreme("ReduceMax"))
TABLE.op("aten.amin.default", "aten.min.default")(_extreme("ReduceMin"))
TABLE.op("aten.any.default", "aten.any.dim", "aten.any.dims", "aten._is_any_true.default")(
    _truth("ReduceMax")
)
TABLE.op("aten.all.default", "aten.all.dim", "aten.all.dims", "aten._is_all_true.default")(
    _truth("ReduceMin")
)


def _extreme_with_index(op_type: str, index_type: str) -> Lowering[Call]:
    def extreme(call: Call) -> list[Value]:
        x, axis, keep = call.value("self"), call.axis("dim"), call.flag("keepdim")
        if not call.rank("self"):
            return [x, call.constant(0)]
        kind = call.dtype_of(x)
        x = call.cast(x, "int32") if kind == "bool" else x  # ONNX has no first of truth values
        return [
            call.cast(call.op(op_type, x, call.constant([axis]), keepdims=keep), kind),
            call.op(index_type, x, axis=axis, keepdims=keep),
        ]

    return extreme


TABLE.op("aten.max.dim")(_extreme_with_index("ReduceMax", "ArgMax"))
TABLE.op("aten.min.dim")(_extreme_with_index("ReduceMin", "ArgMin"))


def _index_of_extreme(op_type: str) -> Lowering[Call]:
    def index(call: Call) -> Value:
        x, keep = call.value("self"), call.flag("keepdim")
        if not call.rank("self"):
            call.ignore("dim")
            return call.constant(0)
        if call.arg("dim") is not None:
            return call.op(op_type, x, axis=call.axis("dim"), keepdims=keep)
        flat = call.op("Reshape", x, call.constant([-1]))
        return call.reshape(call.op(op_type, flat, axis=0, keepdims=0), call.result_shape)

    return index


TABLE.op("aten.argmax.default")(_index_of_extreme("ArgMax"))
TABLE.op("aten.argmin.default")(_index_of_extreme("ArgMin"))


def _norm(call: Call, order: float) -> Value:
    call.ignore("dtype")
    x = call.cast(call.value("self"), call.dtype)
    keep = call.flag("keepdim", False)
    axes = call.axes("dim", default=None)
    axes = call.constant(axes, "int64")
    if order == 1:
        return call.op("ReduceL1", x, axes, keepdims=keep)
    if order == 2:
        return call.op("ReduceL2", x, axes, keepdims=keep)
    if order == 0:
        present = call.cast(call.op("Not", call.op("Equal", x, call.scalar_like(0, x))), call.dtype)
        return call.op("ReduceSum", present, axes, keepdims=keep)
    if order in (np.inf, -np.inf):
        op_type = "ReduceMax" if order > 0 else "ReduceMin"
        return call.op(op_type, call.op("Abs", x), axes, keepdims=keep)
    power = call.op("Pow", call.op("Abs", x), call.scalar_like(order, x))
    return call.op("Pow", call.op("ReduceSum", power, axes, keepdims=keep), call.scalar_like(1 / order, x))


@TABLE.op("aten.linalg_vector_norm.default")
def linalg_vector_norm(call: Call) -> Value:
    """Return the norm of any order; of order 0, how many are not zero."""
    return _norm(call, call.float("ord"))


@TABLE.op("aten.norm.ScalarOpt_dim", "aten.norm.Scalar")
def norm(call: Call) -> Value:
    """Return the older form."""
    return _norm(call, 2.0 if call.arg("p") is None else call.float("p"))


def _variance(call: Call) -> tuple[Value, Value]:
    """Return the variance and mean over the given axes, with torch's correction."""
    x, shape = call.value("self"), call.shape("self")
    axes = call.axes("dim", default=None)
    keep = call.flag("keepdim", False)
    correction = call.arg("correction") if "correction" in call else int(call.flag("unbiased"))
    correction = 1 if correction is None else correction
    along = call.constant(axes)
    mean = _mean(call, x, axes, True)
    centred = call.op("Sub", x, mean)
    squares = call.op("Mul", centred, centred)
    mean = mean if keep or not axes else call.op("Squeeze", mean, along)
    if not correction:
        return _mean(call, squares, axes, keep), mean
    total, count = call.op("ReduceSum", squares, along, keepdims=keep), prod(shape[a] for a in axes)
    if isinstance(count, int):
        return call.op("Div", total, call.scalar_like(max(count - correction, 0), total)), mean
    number = call.size_value(count, call.dtype_of(x))
    rest = call.op("Sub", number, call.scalar_like(correction, total))
    return call.op("Div", total, call.op("Max", rest, call.scalar_like(0, total))), mean


@TABLE.op(
    *("aten.var.correction", "aten.var.dim", "aten.var.default"),
    *("aten.std.correction", "aten.std.dim", "aten.std.default"),
)
def var(call: Call) -> Value:
    """Variance, or its root."""
    variance, _ = _variance(call)
    return call.op("Sqrt", variance) if ".std." in call.operator else variance


@TABLE.op(
    *("aten.var_mean.correction", "aten.var_mean.dim", "aten.var_mean.default"),
    *("aten.std_mean.correction", "aten.std_mean.dim", "aten.std_mean.default"),
)
def var_mean(call: Call) -> list[Value]:
    """Variance, or its root, and mean."""
    variance, mean = _variance(call)
    return [call.op("Sqrt", variance) if ".std_" in call.operator else variance, mean]


@TABLE.op("aten.cumsum.default")
def cumsum(call: Call) -> Value:
    """Running sums."""
    call.ignore("dtype")
    x, axis = call.cast(call.value("self"), call.dtype), call.axis("dim")
    return call.op("CumSum", x, call.constant(axis)) if call.rank("self") else x


def _scan(call: Call, x: Value, composite: str, outputs: int = 1) -> list[Value]:
    """Return a scan along an axis whose length is known."""
    axis = call.axis("dim")
    call.static_shape(call.first, [axis])
    return call.ops(f"regraft.{composite}", x, outputs=outputs, axis=axis)


@TABLE.op("aten.cumprod.default")
def cumprod(call: Call) -> Value:
    """Running products."""
    call.ignore("dtype")  # the result has it
    x = call.cast(call.value("self"), call.dtype)
    return _scan(call, x, "CumProd")[0] if call.rank("self") else x


@TABLE.op("aten.logcumsumexp.default")
def logcumsumexp(call: Call) -> Value:
    """Running logarithms of sums of exponentials."""
    x = call.value("self")
    return _scan(call, x, "LogCumSumExp")[0] if call.rank("self") else x


@TABLE.op("aten.cummax.default", "aten.cummin.default")
def cumulative_extreme(call: Call) -> list[Value]:
    """Return the largest or smallest so far, and where it was last; on truth values as on numbers."""
    x, dtype = call.value("self"), call.dtype_of("self")
    if not call.rank("self"):
        return [x, call.constant(0)]
    composite = "CumMax" if "cummax" in call.operator else "CumMin"
    values, indices = _scan(call, call.cast(x, "int32" if dtype == "bool" else dtype), composite, 2)
    return [call.cast(values, dtype), indices]


def _ranked(call: Call, k: Value, largest: bool) -> list[Value]:
    """TopK, which wants an axis."""
    x, axis = call.value("self"), call.axis("dim")
    x = x if call.rank("self") else call.op("Unsqueeze", x, call.constant([0]))
    wide = "int32" if call.dtype_of(x) == "bool" else call.dtype_of(x)
    attributes = {"axis": axis, "largest": largest, "sorted": True}
    values, indices = call.ops("TopK", call.cast(x, wide), k, outputs=2, **attributes)
    found = [call.cast(values, call.dtype_of(x)), indices]
    return found if call.rank("self") else [call.op("Squeeze", v, call.constant([0])) for v in found]


@TABLE.op("aten.topk.default")
def topk(call: Call) -> list[Value]:
    """Values and indices of the largest or smallest, in order also where torch leaves the order open."""
    call.ignore("sorted")
    return _ranked(call, call.shape_value([call.arg("k")]), call.flag("largest"))


@TABLE.op("aten.sort.default", "aten.sort.stable")
def sort(call: Call) -> list[Value]:
    """All of an axis by TopK, whose order among equals is the stable one."""
    call.ignore("stable")
    shape = call.shape("self")
    length = call.shape_value([shape[call.axis("dim")] if shape else 1])
    return _ranked(call, length, call.flag("descending"))


@TABLE.op("aten.argsort.default", "aten.argsort.stable")
def argsort(call: Call) -> Value:
    """Return the indices of a sort."""
    return sort(call)[1]
