"""Reductions and running sums.

Other scans are written out. Measured on CPU: `ops.cummax` has no gradient, that of `ops.cumprod` is NaN where
an element is 0, and `ops.logcumsumexp` is wrong behind an infinity.
"""

from __future__ import annotations

from ....ir import Operator
from ...source.emitters.settings import count_of, number, numbers
from ...source.emitting import Argument, Call, EmitterTable, Expression, Refused, View
from ...source.expressions import Helper, Part, call, method
from .initializers import ms_dtype

TABLE = EmitterTable()


Axes = int | tuple[int, ...] | Part | None


def _axes(view: View) -> Axes:
    """Return the axes: one number, several, what makes numbers of those that a run gives, or None for all."""
    if not _count(view):
        return None
    if view.constant(1) is None:
        return numbers(view, 1)
    axes = view.ints(1)
    return axes[0] if len(axes) == 1 else tuple(axes)


def _count(view: View) -> int:
    """Return how many axes are stated.

    Raises:
        Refused: where only a run says so.
    """
    count = count_of(view, 1) if view.has(1) else 0
    if count is None:
        raise Refused
    return count


_FINDING = frozenset(["Compress", "NonMaxSuppression", "NonZero", "Unique"])
"""Operators that find as many elements as there are."""


def _found_axis(view: View) -> int | None:
    """Return the one reduced axis whose size the values of inputs decide, so that it may be 0."""
    if not any(node.op_type in _FINDING for node in view.graph.operators()):
        return None
    shape, axes = view.shape(0), _axes(view)
    known = range(len(shape)) if axes is None else [axes] if isinstance(axes, int) else axes
    inputs = {dim for node in view.graph.input_nodes() for dim in node.type.shape or ()}
    found = [
        axis % len(shape)
        for axis in (known if isinstance(known, (range, list, tuple)) else ())
        if (size := shape[axis]) is None or (str(size).isidentifier() and size not in inputs)
    ]
    return found[0] if len(found) == 1 else None


def _neutralised(view: View, x: Part, value: object) -> Part:
    """Return what is reduced, with a neutral element more where there may be none."""
    axis = _found_axis(view)
    return x if axis is None or value is None else call(Helper("with_neutral"), x, axis, value)


def _are_truths(view: View) -> bool:
    """Whether what is reduced are booleans as numbers, as "any" and "all" are read."""
    node = view.graph.producer(view.value(0))
    if not isinstance(node, Operator) or node.op_type != "Cast":
        return False
    operand = view.graph.operands(node.key)[0]
    type_ = None if operand is None else view.graph.type_of(operand)
    return type_ is not None and type_.dtype == "bool"


def _is_empty(view: View) -> bool:
    """Whether the operator reduces no axis."""
    return bool(view.operator.int("noop_with_empty_axes")) and not _count(view)


def _keep(view: View) -> bool:
    return bool(view.operator.int("keepdims"))


def _accumulator(view: View) -> Part | None:
    """Return the type to state for a sum or product; MindSpore's of integers are int64 by default."""
    dtype = view.type(0).dtype
    return Expression((ms_dtype(dtype),)) if dtype.startswith(("int", "uint")) and dtype != "int64" else None


@TABLE.call("ReduceMean")
def mean(view: View) -> Expression:
    """Emit ``x.mean(axis, keep_dims=…)``; those of integers are truncated, of int64 by way of float64."""
    if view.type(0).dtype in ("int64", "uint64"):
        raise Refused
    if _is_empty(view):
        return Expression((view.use(0),))
    return method(view.atom(), "mean", *_positional(view), keep_dims=True if _keep(view) else None)


@TABLE.call("ReduceSum")
def total(view: View) -> Expression:
    """Emit ``x.sum(axis, keepdims=…)``, which makes int64 of integers by default."""
    return _sum(view, view.atom())


def _has_none(view: View) -> bool:
    """Whether an axis that is reduced may have size 0."""
    shape, axes = view.shape(0), _axes(view)
    known = [axes] if isinstance(axes, int) else axes
    return 0 in ([shape[a] for a in known] if isinstance(known, (list, tuple)) else shape)


def _sum(view: View, x: Part) -> Expression:
    if _is_empty(view):
        return Expression((x,))
    if _has_none(view):  # then the values of kernels on CPU are what is in memory
        if view.has(1) and view.constant(1) is None:
            return _of_none(view, 0)
        return sum_of_none(x, _axes(view), keep=_keep(view))
    keep = True if _keep(view) else None
    some = _neutralised(view, x, 0)
    return method(some, "sum", *_positional(view), keepdims=keep, dtype=_accumulator(view))


def sum_of_none(x: Part, axes: object, *, keep: bool) -> Expression:
    """Emit zeros of the shape of a sum over no elements, whose values on CPU are what is in memory.

    Args:
        x: binds as an atom.
        axes: one or several; None for all.
        keep: whether they stay, with size 1.
    """
    given = [] if axes is None else [axes]
    return call("ops.zeros_like", method(x, "sum", *given, keepdims=True if keep else None))


def _positional(view: View) -> list[object]:
    axes = _axes(view)
    return [] if axes is None else [axes]


def _function(op_type: str, function: str, keep: str) -> None:
    @TABLE.call(op_type)
    def emit(view: View) -> Expression:
        if _is_empty(view):
            return Expression((view.use(0),))
        axes, dtype = _axes(view), view.type(0).dtype
        if _has_none(view):
            return _of_none(view, _neutral(op_type, dtype))
        if dtype == "bool":
            return _of_bools(view, axes)
        neutral = int(op_type == "ReduceMin") if _are_truths(view) else _neutral(op_type, dtype)
        some = _neutralised(view, view.use(0), neutral)
        if (function, dtype) == ("amin", "int8"):  # which only the kernel of wider integers has
            raise Refused
        if axes is None:
            axes = tuple(range(view.rank()))
        options: dict[str, object] = {keep: True if _keep(view) else None}
        if function == "prod":
            options["dtype"] = _accumulator(view)
        return call(f"ops.{function}", some, axes, **options)


_function("ReduceMax", "amax", "keepdims")
_function("ReduceMin", "amin", "keepdims")
_function("ReduceProd", "prod", "keep_dims")
_function("ReduceLogSumExp", "logsumexp", "keepdim")


def _of_none(view: View, fill: object) -> Expression:
    """Emit a call of the emitted file's own function for what is neutral, in the shape of the result.

    Raises:
        Refused: for axes that are known, where the result is a constant, and for integers without such.
    """
    dtype = view.type(0).dtype
    if not view.has(1) or view.constant(1) is not None or fill is None:
        raise Refused
    return call(
        Helper("of_none"), view.tensor(0), view.tensor(1), fill, Expression((ms_dtype(dtype),)), _keep(view)
    )


def _neutral(op_type: str, dtype: str) -> object:
    """Return the result of a reduction over no elements, None where it depends on the width of a type."""
    if dtype == "bool":
        return {"ReduceMax": False, "ReduceMin": True}.get(op_type)
    if op_type == "ReduceProd":
        return 1
    infinite = {"ReduceMax": -float("inf"), "ReduceMin": float("inf"), "ReduceLogSumExp": -float("inf")}
    return None if dtype.startswith(("int", "uint")) else infinite[op_type]


def _of_bools(view: View, axes: Axes) -> Expression:
    """Return whether any or all are true, which the largest and the smallest say."""
    function = {"ReduceMax": "any", "ReduceMin": "all"}.get(view.operator.op_type)
    if function is None:
        raise Refused
    some = _neutralised(view, view.use(0), function == "all")
    return call(f"ops.{function}", some, axes, *([True] if _keep(view) else []))


@TABLE.call("ReduceSumSquare")
def sum_square(view: View) -> Expression:
    """Emit ``ops.square(x).sum(axis)``."""
    return _sum(view, call("ops.square", view.use(0)))


@TABLE.call("ReduceL1")
def l1(view: View) -> Expression:
    """Emit ``ops.abs(x).sum(axis)``."""
    return _sum(view, call("ops.abs", view.use(0)))


@TABLE.call("ReduceLogSum")
def log_sum(view: View) -> Expression:
    """Emit ``ops.log(x.sum(axis))``."""
    return call("ops.log", total(view))


@TABLE.call("ReduceL2")
def l2(view: View) -> Expression:
    """Emit ``ops.sqrt(ops.square(x).sum(axis))``."""
    return call("ops.sqrt", sum_square(view))


@TABLE.call("ArgMax", "ArgMin", "regraft.mindspore.ArgMin")
def argmax(view: View) -> Expression:
    """Emit ops.argmax or ops.argmin, which return the first of several equal places."""
    if view.operator.int("select_last_index"):
        raise Refused
    keep, axis = True if _keep(view) else None, view.operator.int("axis")
    if view.operator.op_type == "ArgMax":
        return call("ops.argmax", view.use(0), axis, keepdim=keep)
    return call("ops.argmin", view.use(0), axis, keepdims=keep)


@TABLE.call("CumSum")
def cumulative_sum(view: View) -> Expression:
    """Emit ops.cumsum, or ops.CumSum for an exclusive or reversed sum."""
    options = [n for n in ("exclusive", "reverse") if view.operator.int(n)]
    axis = number(view, 1)
    if not options:
        return call("ops.cumsum", view.use(0), axis)
    made = call("ops.CumSum", **dict.fromkeys(options, True))
    return Expression((Call(made, (Argument("", view.use(0)), Argument("", axis))),))


@TABLE.call("TopK", "regraft.mindspore.TopK")
def top_k(view: View) -> Expression:
    """Emit ops.topk: values and indices; it has no smallest ones of uint8, of which the order is wrong."""
    if view.type(0).dtype == "uint8" and not view.operator.int("largest"):
        raise Refused
    found = call(
        "ops.topk",
        view.use(0),
        number(view, 1, "k"),
        dim=view.operator.int("axis"),
        largest=None if view.operator.int("largest") else False,
        sorted=None if view.operator.int("sorted") else False,
    )
    return Expression(found.parts, outputs=2)
