"""Reductions and running sums."""

from __future__ import annotations

import math

from ...source.emitters.settings import count_of, number, numbers
from ...source.emitting import EmitterTable, Expression, Refused, View
from ...source.expressions import ATOM, Attribute, Helper, Part, call, method
from .initializers import torch_dtype

TABLE = EmitterTable()

Axes = int | tuple[int, ...] | Part | None


def _axes(view: View) -> Axes:
    """Return the axes: one number, several, what makes numbers of those that a run gives, or None for all.

    Raises:
        Refused: where only a run says how many they are.
    """
    count = count_of(view, 1) if view.has(1) else 0
    if count is None:
        raise Refused
    if not count:
        return None
    if view.constant(1) is None:
        return numbers(view, 1)
    axes = view.ints(1)
    return axes[0] if len(axes) == 1 else tuple(axes)


def _is_empty(view: View) -> bool:
    """Whether the operator reduces no axis."""
    return bool(view.operator.int("noop_with_empty_axes")) and _axes(view) is None


def _reduced(view: View, x: Part, function: str, **more: object) -> Expression:
    """Return ``x.sum(1, keepdim=True)``; all axes are stated where they stay."""
    if _is_empty(view):
        return x if isinstance(x, Expression) else Expression((x,))
    axes, keep = _axes(view), bool(view.operator.int("keepdims"))
    if axes is None and (keep or function == "logsumexp"):
        axes = tuple(range(view.rank()))
    if axes == ():  # of a scalar nothing is reduced
        return x if isinstance(x, Expression) else Expression((x,))
    given = [] if axes is None else [axes]
    return method(x, function, *given, keepdim=True if keep else None, **more)


def _accumulator(view: View) -> Part | None:
    """Return the type to state for a sum; torch's of integers are int64 by default."""
    dtype = view.type(0).dtype
    return torch_dtype(dtype) if dtype.startswith(("int", "uint")) and dtype != "int64" else None


@TABLE.call("ReduceMean")
def mean(view: View) -> Expression:
    """Emit ``x.mean(axis, keepdim=…)``; of integers the quotient of a sum, which truncates in ONNX."""
    if view.type(0).dtype.startswith(("float", "bfloat")):
        return _reduced(view, view.atom(), "mean")
    axes, shape = _axes(view), view.shape()
    if _is_empty(view) or not (axes is None or isinstance(axes, (int, tuple))):
        raise Refused
    reduced = range(len(shape)) if axes is None else (axes,) if isinstance(axes, int) else axes
    sizes = [shape[axis] for axis in reduced]
    known = [size for size in sizes if isinstance(size, int)]
    count: object = math.prod(known)
    if len(known) != len(sizes):
        if len(sizes) != len(shape):
            raise Refused
        count = method(view.atom(), "numel")
    elif not count:
        raise Refused
    return call("torch.div", total(view), count, rounding_mode="trunc")


@TABLE.call("ReduceSum")
def total(view: View) -> Expression:
    """Emit ``x.sum(axis, keepdim=…)``."""
    return _reduced(view, view.atom(), "sum", dtype=_accumulator(view))


def _function(op_type: str, function: str, of_truths: str) -> None:
    @TABLE.call(op_type)
    def emit(view: View) -> Expression:
        if view.type(0).dtype == "bool":
            return _reduced(view, view.atom(), of_truths)
        return _of_nothing(view) or _reduced(view, view.atom(), function)


def _of_nothing(view: View) -> Expression | None:
    """Return what extremes of no elements are in ONNX, where torch has none; None where there are some."""
    to = view.output_type()
    if 0 not in (view.type(0).shape or ()) or to is None or not to.is_static or 0 in to.static_shape():
        return None
    dtype, is_max = view.type(0).dtype, view.operator.op_type == "ReduceMax"
    end: object = float("-inf" if is_max else "inf")
    if not dtype.startswith(("float", "bfloat")):
        end = Attribute(call("torch.iinfo", torch_dtype(dtype)), "min" if is_max else "max")
    return method(view.atom(), "new_full", to.static_shape(), end)


_function("ReduceMax", "amax", "any")
_function("ReduceMin", "amin", "all")


@TABLE.call("ReduceLogSumExp")
def log_sum_exp(view: View) -> Expression:
    """Emit ``x.logsumexp(axis)``."""
    if not view.type(0).dtype.startswith("float"):
        raise Refused
    return _reduced(view, view.atom(), "logsumexp")


@TABLE.call("ReduceProd")
def product(view: View) -> Expression:
    """Emit ``x.prod(axis)``, of one axis, or of all."""
    axes = _axes(view)
    if isinstance(axes, int) or (axes is None and (_is_empty(view) or not view.operator.int("keepdims"))):
        return _reduced(view, view.atom(), "prod", dtype=_accumulator(view))
    axes = tuple(range(view.rank())) if axes is None else axes
    keep = True if view.operator.int("keepdims") else None
    return call(Helper("product"), view.tensor(0), axes, keepdim=keep)


@TABLE.call("ReduceSumSquare")
def sum_square(view: View) -> Expression:
    """Emit ``x.square().sum(axis)``."""
    return _reduced(view, method(view.atom(), "square"), "sum", dtype=_accumulator(view))


@TABLE.call("ReduceL1")
def l1(view: View) -> Expression:
    """Emit ``x.abs().sum(axis)``."""
    return _reduced(view, method(view.atom(), "abs"), "sum", dtype=_accumulator(view))


@TABLE.call("ReduceL2")
def l2(view: View) -> Expression:
    """Emit ``x.norm(dim=axis)`` as a root of a sum."""
    if not view.type(0).dtype.startswith("float"):
        raise Refused
    return call("torch.sqrt", sum_square(view))


@TABLE.call("ReduceLogSum")
def log_sum(view: View) -> Expression:
    """Emit ``torch.log(x.sum(axis))``."""
    return call("torch.log", total(view))


@TABLE.call("ArgMax", "ArgMin")
def argmax(view: View) -> Expression:
    """Emit ``x.argmax(axis)``, which returns the first of equal elements on CPU."""
    if view.operator.int("select_last_index"):
        raise Refused
    keep, axis = True if view.operator.int("keepdims") else None, view.operator.int("axis")
    return method(view.tensor(0, ATOM), view.operator.op_type.lower(), axis, keepdim=keep)


def running_sum(view: View) -> Expression:
    """Return ``running_sum(x, axis, exclusive=True)``, a function of the file's own."""
    flags = {name: True for name in ("exclusive", "reverse") if view.operator.int(name)}
    return call(Helper("running_sum"), view.tensor(0), number(view, 1), **flags)


@TABLE.call("CumSum")
def cumulative_sum(view: View) -> Expression:
    """Emit ``x.cumsum(axis)``; of reversed axes for a sum from the end."""
    if view.operator.int("exclusive"):
        return running_sum(view)
    axis = number(view, 1)
    dtype = _accumulator(view)
    if not view.operator.int("reverse"):
        return method(view.atom(), "cumsum", axis, dtype=dtype)
    if view.constant(1) is None:
        return running_sum(view)
    axes = (int(view.scalar(1)),)
    return method(method(method(view.atom(), "flip", axes), "cumsum", axis, dtype=dtype), "flip", axes)
