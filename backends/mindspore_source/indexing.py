"""Looking up: embeddings, gathers, slices."""

from __future__ import annotations

from .emitting import Argument, Call, EmitterTable, Expression, Layer, Literal, Refused, State, View, initial
from .expressions import Part, call
from .initial import law

table = EmitterTable()

_OPEN = 1 << 31
"""Ends from here on mean "to the end", as exporters write them."""


@table.layer("Gather")
def embedding(view: View) -> Layer:
    """nn.Embedding, whose table MindSpore draws from N(0, 0.01) by default."""
    weight = view.parameter(0)
    if (
        view.operator.int("axis")
        or len(weight.data.shape) != 2
        or not view.has(1)
        or view.constant(1) is not None
        or weight.data.dtype != "float32"  # nn.Embedding draws its table in float32, whatever its dtype
    ):
        raise Refused
    rows, size = weight.data.shape
    arguments = (
        Argument("", Literal(rows, "vocab_size")),
        Argument("", Literal(size, "embedding_size")),
        *initial(weight, "embedding_table", law(weight.initializer)),
    )
    return Layer(Call("nn.Embedding", arguments), (State(0, "embedding_table"),), inputs=(1,))


def _subscript(view: View, axis: int, rank: int, index: Part) -> Expression:
    """``x[:, index]``; from the end where that is shorter."""
    axis %= rank
    if axis and axis == rank - 1 and rank > 2:
        return Expression((view.atom(), "[..., ", index, "]"))
    return Expression((view.atom(), "[", ":, " * axis, index, "]"))


@table.call("Gather")
def gather(view: View) -> Expression:
    """A subscript for a constant index, ops.gather otherwise."""
    axis = view.operator.int("axis")
    indices = view.constant(1)
    if view.host(0) == "tuple":
        if indices is None:
            raise Refused
        if indices.ndim == 0:
            return Expression((view.atom(), "[", Literal(int(indices), "index"), "]"), host="int")
        items: list[Part] = []
        for index in indices.reshape(-1):
            items += [view.atom(), "[", Literal(int(index), "index"), "], "]
        return Expression(("(", *items, ")"), host="tuple")
    if indices is not None and indices.ndim == 0:
        return _subscript(view, axis, view.rank(), Literal(int(indices), "index"))
    if indices is not None and indices.size and int(indices.min()) < 0:
        raise Refused  # ops.gather gives zeros for a negative index
    return call("ops.gather", view.use(0), view.use(1), axis)


@table.call("GatherElements")
def gather_elements(view: View) -> Expression:
    """ops.gather_elements."""
    return call("ops.gather_elements", view.use(0), view.operator.int("axis"), view.use(1))


@table.call("GatherND")
def gather_nd(view: View) -> Expression:
    """ops.gather_nd."""
    if view.operator.int("batch_dims"):
        raise Refused
    return call("ops.gather_nd", view.use(0), view.use(1))


@table.call("ScatterND")
def scatter_nd(view: View) -> Expression:
    """ops.tensor_scatter_update and its kin, out of place; indices below zero count from no end there."""
    indices, reduction = view.constant(1), view.operator.str("reduction", "none")
    if indices is not None and (indices < 0).any():
        raise Refused
    name = "ops.TensorScatterUpdate()" if reduction == "none" else f"ops.tensor_scatter_{reduction}"
    return call(name, view.use(0), view.use(1), view.use(2))


@table.call("Slice")
def slice_(view: View) -> Expression:
    """``x[:, 1:3]``."""
    starts, ends = view.constant_ints(1), view.constant_ints(2)
    host = view.host(0) == "tuple"
    rank = 1 if host else view.rank()
    axes = view.constant_ints(3) if view.has(3) else list(range(len(starts)))
    steps = view.constant_ints(4) if view.has(4) else [1] * len(starts)
    by_axis = {a % rank: (s, e, t) for a, s, e, t in zip(axes, starts, ends, steps, strict=True)}
    parts: list[Part] = []
    for axis in range(max(by_axis) + 1):
        if axis:
            parts.append(", ")
        start, end, step = by_axis.get(axis, (0, _OPEN, 1))
        if step < 0:
            raise Refused
        parts += [Literal(start, "start")] * bool(start) + [":"]
        parts += [Literal(end, "stop")] * (end < _OPEN - 1)
        parts += [":", Literal(step, "step")] if step != 1 else []
    return Expression((view.atom(), "[", *parts, "]"), host="tuple" if host else "")


@table.call("Trilu")
def triangle(view: View) -> Expression:
    """ops.tril, ops.triu."""
    diagonal = int(view.scalar(1, 0))
    return call("ops.triu" if view.operator.int("upper", 1) else "ops.tril", view.use(0), diagonal)
