"""Lowerings of reductions, scans, sorting and selection of extremes."""

from __future__ import annotations

import numpy as np

from ...ir import Value
from ..lowering import LoweringTable
from .context import Call, Lowering

REDUCE: LoweringTable[Lowering] = LoweringTable("torch")


def _reduction(op_type: str) -> Lowering:
    """Over the given axes, or all; torch's `dtype` is the result's."""

    def reduction(call: Call) -> Value:
        if "dtype" in call.attributes:
            call.ignore("dtype")
        x = call.cast(call.value("self"), call.dtype)
        keep = "keepdim" in call.attributes and call.flag("keepdim")
        if "dim" not in call.attributes or call.arg("dim") in (None, []):
            return call.op(op_type, x, keepdims=keep)
        return call.op(op_type, x, call.constant(call.axes("dim")), keepdims=keep)

    return reduction


REDUCE.op("aten.mean.dim", "aten.mean.default")(_reduction("ReduceMean"))
REDUCE.op("aten.sum.dim_IntList", "aten.sum.default")(_reduction("ReduceSum"))
REDUCE.op("aten.prod.dim_int", "aten.prod.default")(_reduction("ReduceProd"))
REDUCE.op("aten.amax.default", "aten.max.default")(_reduction("ReduceMax"))
REDUCE.op("aten.amin.default", "aten.min.default")(_reduction("ReduceMin"))
REDUCE.op("aten.logsumexp.default")(_reduction("ReduceLogSumExp"))


def _truth(op_type: str) -> Lowering:
    """Any and all, as the largest and smallest of 0 and 1."""

    def truth(call: Call) -> Value:
        x = call.cast(call.cast(call.value("self"), "bool"), "int32")
        keep = "keepdim" in call.attributes and call.flag("keepdim")
        axes = call.constant(call.axes("dim")) if "dim" in call.attributes else None
        return call.cast(call.op(op_type, x, axes, keepdims=keep), "bool")

    return truth


REDUCE.op("aten.any.default", "aten.any.dim", "aten.any.dims")(_truth("ReduceMax"))
REDUCE.op("aten.all.default", "aten.all.dim", "aten.all.dims")(_truth("ReduceMin"))


def _extreme_with_index(op_type: str, index_type: str) -> Lowering:
    def extreme(call: Call) -> list[Value]:
        x, axis, keep = call.value("self"), call.axis("dim"), call.flag("keepdim")
        return [
            call.op(op_type, x, call.constant([axis]), keepdims=keep),
            call.op(index_type, x, axis=axis, keepdims=keep),
        ]

    return extreme


REDUCE.op("aten.max.dim")(_extreme_with_index("ReduceMax", "ArgMax"))
REDUCE.op("aten.min.dim")(_extreme_with_index("ReduceMin", "ArgMin"))


def _index_of_extreme(op_type: str) -> Lowering:
    def index(call: Call) -> Value:
        x, keep = call.value("self"), call.flag("keepdim")
        if call.arg("dim") is not None:
            return call.op(op_type, x, axis=call.axis("dim"), keepdims=keep)
        flat = call.op("Reshape", x, call.constant([-1]))
        return call.reshape(call.op(op_type, flat, axis=0, keepdims=0), call.result_shape)

    return index


REDUCE.op("aten.argmax.default")(_index_of_extreme("ArgMax"))
REDUCE.op("aten.argmin.default")(_index_of_extreme("ArgMin"))


def _norm(call: Call, order: float) -> Value:
    if "dtype" in call.attributes:
        call.ignore("dtype")
    x = call.cast(call.value("self"), call.dtype)
    keep, axes = call.flag("keepdim"), call.constant(call.axes("dim"))
    if order == 1:
        return call.op("ReduceL1", x, axes, keepdims=keep)
    if order == 2:
        return call.op("ReduceL2", x, axes, keepdims=keep)
    if order in (np.inf, -np.inf):
        op_type = "ReduceMax" if order > 0 else "ReduceMin"
        return call.op(op_type, call.op("Abs", x), axes, keepdims=keep)
    power = call.op("Pow", call.op("Abs", x), call.b.scalar_like(order, x))
    return call.op("Pow", call.op("ReduceSum", power, axes, keepdims=keep), call.b.scalar_like(1 / order, x))


@REDUCE.op("aten.linalg_vector_norm.default")
def linalg_vector_norm(call: Call) -> Value:
    """The norm of any order but 0."""
    if call.float("ord") == 0:
        raise call.unsupported("expected an `ord` other than 0")
    return _norm(call, call.float("ord"))


@REDUCE.op("aten.norm.ScalarOpt_dim", "aten.norm.Scalar")
def norm(call: Call) -> Value:
    """The older form."""
    order = 2.0 if call.arg("p") is None else call.float("p")
    if "dim" in call.attributes:
        return _norm(call, order)
    x = call.op("Reshape", call.value("self"), call.constant([-1]))
    return call.op("ReduceL2" if order == 2 else "ReduceL1", x, keepdims=0)


def _variance(call: Call, keep: bool, of: str = "self") -> tuple[Value, Value]:
    """The variance and mean over the given axes, with torch's correction."""
    x, shape, axes = call.value(of), call.shape(of), call.axes("dim")
    correction = call.arg("correction") if "correction" in call.attributes else int(call.flag("unbiased"))
    correction = 1 if correction is None else correction
    counts = [shape[a] for a in axes]
    if not all(isinstance(c, int) for c in counts):
        raise call.unsupported(f"expected static sizes of the axes {axes}, got {[str(c) for c in counts]}")
    count = int(np.prod(counts))
    along = call.constant(axes)
    mean = call.op("ReduceMean", x, along, keepdims=1)
    centred = call.op("Sub", x, mean)
    variance = call.op("ReduceMean", call.op("Mul", centred, centred), along, keepdims=keep)
    if correction:
        variance = call.op("Mul", variance, call.b.scalar_like(count / max(count - correction, 0), variance))
    return variance, mean if keep else call.op("Squeeze", mean, along)


@REDUCE.op("aten.var.correction", "aten.var.dim", "aten.std.correction", "aten.std.dim")
def var(call: Call) -> Value:
    """Variance, or its root."""
    variance, _ = _variance(call, call.flag("keepdim"))
    return call.op("Sqrt", variance) if ".std." in call.target else variance


@REDUCE.op("aten.var_mean.correction", "aten.var_mean.dim", "aten.std_mean.correction", "aten.std_mean.dim")
def var_mean(call: Call) -> list[Value]:
    """Variance, or its root, and mean."""
    variance, mean = _variance(call, call.flag("keepdim"))
    return [call.op("Sqrt", variance) if ".std_" in call.target else variance, mean]


@REDUCE.op("aten.cumsum.default")
def cumsum(call: Call) -> Value:
    """Running sums."""
    call.ignore("dtype")
    x = call.cast(call.value("self"), call.dtype)
    return call.op("CumSum", x, call.constant(call.axis("dim")))


@REDUCE.op("aten.topk.default")
def topk(call: Call) -> list[Value]:
    """Values and indices of the largest or smallest."""
    k = call.constant([call.int("k")])
    attributes = {"axis": call.axis("dim"), "largest": call.flag("largest"), "sorted": call.flag("sorted")}
    return call.b.ops("TopK", call.value("self"), k, outputs=2, **attributes)


@REDUCE.op("aten.sort.default", "aten.sort.stable")
def sort(call: Call) -> list[Value]:
    """All of an axis by TopK, whose order among equals is the stable one."""
    if "stable" in call.attributes:
        call.ignore("stable")
    axis = call.axis("dim")
    length = call.context.sizes([call.shape("self")[axis]])
    largest = call.flag("descending")
    return call.b.ops("TopK", call.value("self"), length, outputs=2, axis=axis, largest=largest, sorted=1)


@REDUCE.op("aten.argsort.default")
def argsort(call: Call) -> Value:
    """The indices of a sort."""
    axis = call.axis("dim")
    length = call.context.sizes([call.shape("self")[axis]])
    largest = call.flag("descending")
    return call.b.ops("TopK", call.value("self"), length, outputs=2, axis=axis, largest=largest, sorted=1)[1]
