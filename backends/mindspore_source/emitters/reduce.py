"""Reductions and running sums.

Other scans are written out. Measured on CPU: `ops.cummax` has no gradient, that of `ops.cumprod` is NaN where
an element is 0, and `ops.logcumsumexp` is wrong behind an infinity.
"""

from __future__ import annotations

from ..emitting import Argument, Call, EmitterTable, Expression, Refused, View
from ..text.expressions import ATOM, Element, Part, call, method

TABLE = EmitterTable()


def _axes(view: View) -> int | tuple[int, ...] | None:
    """Return the axes: one number, several, or None for all.

    Raises:
        Refused: when they are computed, or nothing is reduced.
    """
    axes = view.ints(1) if view.has(1) else []
    if not axes:
        if view.operator.int("noop_with_empty_axes"):
            raise Refused
        return None
    return axes[0] if len(axes) == 1 else tuple(axes)


def _keep(view: View) -> bool:
    return bool(view.operator.int("keepdims"))


@TABLE.call("ReduceMean")
def mean(view: View) -> Expression:
    """Emit ``x.mean(axis, keep_dims=…)``; refuses integers, which it would truncate."""
    if not view.type(0).dtype.startswith(("float", "bfloat")):
        raise Refused
    return method(view.atom(), "mean", *_positional(view), keep_dims=True if _keep(view) else None)


@TABLE.call("ReduceSum")
def total(view: View) -> Expression:
    """Emit ``x.sum(axis, keepdims=…)``."""
    shape, axes = view.shape(0), _axes(view)
    if 0 in ([shape[a] for a in ([axes] if isinstance(axes, int) else axes)] if axes is not None else shape):
        return sum_of_none(view.atom(), axes, keep=_keep(view))
    return method(view.atom(), "sum", *_positional(view), keepdims=True if _keep(view) else None)


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
        axes = _axes(view)
        if axes is None:
            axes = tuple(range(view.rank()))
        return call(f"ops.{function}", view.use(0), axes, **{keep: True if _keep(view) else None})


_function("ReduceMax", "amax", "keepdims")
_function("ReduceMin", "amin", "keepdims")
_function("ReduceProd", "prod", "keep_dims")
_function("ReduceLogSumExp", "logsumexp", "keepdim")


@TABLE.call("ReduceSumSquare")
def sum_square(view: View) -> Expression:
    """Emit ``ops.square(x).sum(axis)``."""
    return method(
        call("ops.square", view.use(0)), "sum", *_positional(view), keepdims=True if _keep(view) else None
    )


@TABLE.call("ReduceL1")
def l1(view: View) -> Expression:
    """Emit ``ops.abs(x).sum(axis)``."""
    return method(
        call("ops.abs", view.use(0)), "sum", *_positional(view), keepdims=True if _keep(view) else None
    )


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
    if options:
        made = call("ops.CumSum", **dict.fromkeys(options, True))
        return Expression((Call(made, (Argument("", view.use(0)), Argument("", str(int(view.scalar(1)))))),))
    return call("ops.cumsum", view.use(0), int(view.scalar(1)))


@TABLE.call("TopK", "regraft.mindspore.TopK")
def top_k(view: View) -> Expression:
    """Emit ops.topk: values and indices."""
    found = call(
        "ops.topk",
        view.use(0),
        Element(view.use(1, ATOM), 0) if view.host(1) == "tuple" else int(view.scalar(1)),
        dim=view.operator.int("axis"),
        largest=None if view.operator.int("largest") else False,
        sorted=None if view.operator.int("sorted") else False,
    )
    return Expression(found.parts, outputs=2)
