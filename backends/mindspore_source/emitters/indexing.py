"""Looking up: embeddings, gathers, slices."""

from __future__ import annotations

import numpy as np

from ...source.emitting import (
    Argument,
    Call,
    EmitterTable,
    Expression,
    Literal,
    NnClass,
    NnLayer,
    Refused,
    State,
    View,
    initializer_argument,
)
from ...source.expressions import (
    ADD,
    ATOM,
    COMPARE,
    Attribute,
    Brackets,
    Element,
    Helper,
    Part,
    Slice,
    call,
    infix,
    method,
)
from .initializers import law_of

TABLE = EmitterTable()

_OPEN = 1 << 31
"""Ends of at least this mean "to the end", as exporters write them."""


@TABLE.layer("Gather")
def embedding(view: View) -> NnLayer:
    """Emit nn.Embedding, whose table MindSpore draws from N(0, 0.01) by default."""
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
        *initializer_argument(weight, "embedding_table", law_of(weight)),
        *_padding_row(view),
    )
    return NnLayer(Call(NnClass("Embedding"), arguments), (State(0, "embedding_table"),), inputs=(1,))


def _padding_row(view: View) -> tuple[Argument, ...]:
    """Return the row that MindSpore's own layer began as zeros, where the source is one."""
    tree, call_ = view.graph.modules, view.operator.call
    if call_ is None or view.graph.origin.framework != "mindspore":
        return ()
    module = tree.module(tree.call(call_).module)
    row = module.arguments.get("padding_idx") if module.class_name == "Embedding" else None
    return (Argument("padding_idx", Literal(row, "padding_idx")),) if isinstance(row, int) else ()


@TABLE.layer("regraft.PaddedEmbedding")
def padded_embedding(view: View) -> NnLayer:
    """Emit nn.Embedding that keeps the gradient off its padding row, which MindSpore's own does not."""
    weight = view.parameter(0)
    if len(weight.data.shape) != 2 or view.constant(1) is not None or weight.data.dtype != "float32":
        raise Refused
    rows, size = weight.data.shape
    arguments = (
        Argument("", Literal(rows, "vocab_size")),
        Argument("", Literal(size, "embedding_size")),
        *initializer_argument(weight, "embedding_table", law_of(weight)),
        Argument("padding_idx", Literal(view.operator.int("padding_idx"), "padding_idx")),
    )
    return NnLayer(Call(Helper("PaddedEmbedding"), arguments), (State(0, "embedding_table"),), inputs=(1,))


@TABLE.call("regraft.PaddedEmbedding")
def padded_rows(view: View) -> Expression:
    """Emit ops.gather of rows; rows of padding pass no gradient."""
    rows = call("ops.gather", view.use(0), view.use(1), 0)
    padding = infix(view.use(1, ADD), "==", Literal(view.operator.int("padding_idx"), "padding"), COMPARE)
    hidden = method(Brackets(padding), "expand_dims", -1)
    return call("ops.where", hidden, call("ops.stop_gradient", rows), rows)


PADDED_EMBEDDING = '''class PaddedEmbedding(nn.Embedding):
    """nn.Embedding that keeps the gradient off the row of its padding, as torch's does."""

    def construct(self, ids):
        rows = ops.gather(self.embedding_table, ids, 0)
        padding = (ids == self.padding_idx).expand_dims(-1)
        return ops.where(padding, ops.stop_gradient(rows), rows)
'''
"""The class for such layers in an emitted file."""


def _subscript(view: View, axis: int, rank: int, index: Part) -> Expression:
    """Return ``x[:, index]``, counted from the end where that is shorter."""
    axis %= rank
    if axis and axis == rank - 1 and rank > 2:
        return Expression((view.atom(), "[..., ", index, "]"))
    return Expression((view.atom(), "[", ":, " * axis, index, "]"))


@TABLE.call("Gather")
def gather(view: View) -> Expression:
    """Emit a subscript for a constant index, ops.gather otherwise."""
    axis = view.operator.int("axis")
    indices = view.constant(1)
    if view.host(0) == "tuple":
        if indices is None:
            raise Refused
        if indices.ndim == 0:
            return Expression((Element(view.atom(), Literal(int(indices), "index")),), host="int")
        items: list[Part] = []
        for index in indices.reshape(-1):
            items += [view.atom(), "[", Literal(int(index), "index"), "], "]
        return Expression(("(", *items, ")"), host="tuple")
    if indices is not None and indices.ndim == 0:
        return _subscript(view, axis, view.rank(), Literal(int(indices), "index"))
    if indices is not None and indices.ndim == 1 and indices.size and (np.diff(indices) == 1).all():
        start, stop = int(indices[0]), int(indices[-1]) + 1
        if start >= 0 or stop <= 0:
            bounds = [Literal(start, "start")] * bool(start) + [":"] + [Literal(stop, "stop")] * bool(stop)
            return _subscript(view, axis, view.rank(), Expression(tuple(bounds)))
    if view.host(1) == "int":  # computed of sizes, in Python
        return _subscript(view, axis, view.rank(), view.use(1))
    if indices is not None and indices.size and int(indices.min()) < 0:
        raise Refused  # ops.gather gives zeros for a negative index
    return call("ops.gather", view.tensor(0), view.tensor(1), axis)


@TABLE.call("GatherElements")
def gather_elements(view: View) -> Expression:
    """Emit ops.gather_elements."""
    return call("ops.gather_elements", view.tensor(0), view.operator.int("axis"), view.tensor(1))


@TABLE.call("GatherND")
def gather_nd(view: View) -> Expression:
    """Emit ops.gather_nd."""
    if view.operator.int("batch_dims"):
        raise Refused
    return call("ops.gather_nd", view.tensor(0), view.tensor(1))


@TABLE.call("ScatterND")
def scatter_nd(view: View) -> Expression:
    """Emit ops.tensor_scatter_update and its kin, out of place; they do not count from the end."""
    indices, reduction = view.constant(1), view.operator.str("reduction")
    if indices is not None and (indices < 0).any():
        raise Refused
    name = "ops.TensorScatterUpdate()" if reduction == "none" else f"ops.tensor_scatter_{reduction}"
    return call(name, view.tensor(0), view.tensor(1), view.tensor(2))


@TABLE.call("ScatterElements")
def scatter_elements(view: View) -> Expression:
    """Emit ops.tensor_scatter_elements where it writes no element twice: on CPU its threads race for such."""
    reduction, axis = view.operator.str("reduction"), view.operator.int("axis")
    if reduction not in ("none", "add") or not _are_distinct(view, axis):
        raise Refused
    keyword = None if reduction == "none" else reduction
    operands = [view.tensor(slot) for slot in range(3)]
    return call("ops.tensor_scatter_elements", *operands, axis=axis, reduction=keyword)


def _are_distinct(view: View, axis: int) -> bool:
    """Whether indices along an axis are known to name no place twice."""
    if view.rank(1) and view.shape(1)[axis] == 1:
        return True
    indices = view.constant(1)
    return indices is not None and bool(
        (indices >= 0).all() and (np.diff(np.sort(indices, axis), axis=axis) > 0).all()
    )


@TABLE.call("NonZero")
def nonzero(view: View) -> Expression:
    """Emit ops.nonzero, which returns one row per place."""
    return Expression((Attribute(call("ops.nonzero", view.use(0)), "T"),))


@TABLE.call("Compress")
def compress(view: View) -> Expression:
    """Emit ops.masked_select, for vectors."""
    if view.rank(0) != 1 or view.operator.attribute("axis") not in (None, 0):
        raise Refused
    return call("ops.masked_select", view.use(0), view.use(1))


@TABLE.call("Unique")
def unique(view: View) -> Expression:
    """Emit the values alone, in order of occurrence as ops.unique has them, or sorted."""
    if view.used_outputs() > 1 or view.operator.attribute("axis") is not None:
        raise Refused
    values = Element(call("ops.unique", method(view.atom(), "reshape", -1)), 0)
    return Expression((Element(call("ops.sort", values), 0) if view.operator.int("sorted") else values,))


@TABLE.call("Col2Im")
def columns_to_image(view: View) -> Expression:
    """Emit ops.fold, for images of two dimensions."""
    size, window = view.ints(1), view.ints(2)
    if len(size) != 2:
        raise Refused
    pads = view.operator.spatial("pads", 2)
    if pads[:2] != pads[2:]:
        raise Refused
    named = {name: tuple(view.operator.spatial(f"{name}s", 2)) for name in ("dilation", "stride")}
    to = call("ms.Tensor", list(size), Expression(("ms.int32",)))
    return call("ops.fold", view.use(0), to, tuple(window), padding=tuple(pads[:2]), **named)


def _bounds(view: View, slot: int, count: int) -> list[Part | int]:
    """Return the bounds of a slice: numbers, or computed sizes."""
    if view.constant(slot) is None:
        return [Element(view.use(slot, ATOM), i) for i in range(count)]
    return list(view.ints(slot))


@TABLE.call("Slice")
def slice_(view: View) -> Expression:
    """Emit ``x[:, 1:3]``."""
    host = view.host(0) == "tuple"
    rank = 1 if host else view.rank()
    steps = view.ints(4) if view.has(4) else None
    axes = view.ints(3) if view.has(3) else list(range(len(view.ints(1))))
    steps = [1] * len(axes) if steps is None else steps
    starts, ends = (_bounds(view, slot, len(axes)) for slot in (1, 2))
    by_axis = {a % rank: (s, e, t) for a, s, e, t in zip(axes, starts, ends, steps, strict=True)}
    source, by_axis = (view.atom(), by_axis) if host else _forwards(view, by_axis)
    if not by_axis:
        return source if isinstance(source, Expression) else Expression((source,))
    if host and len(by_axis) == 1 and (bounds := by_axis.get(0)) and bounds[2] == 1:
        start, end, _ = bounds
        first = _bound(start, "start") if not isinstance(start, int) or start else None
        last = _bound(end, "stop") if not isinstance(end, int) or end < _OPEN - 1 else None
        return Expression((Slice(view.atom(), first, last),), host="tuple")
    return Expression((source, "[", *_subscripts(by_axis), "]"), host="tuple" if host else "")


Steps = dict[int, tuple[Part | int, Part | int, int]]
"""Axis -> (start, end, step) of a slice."""


def _forwards(view: View, by_axis: Steps) -> tuple[Part, Steps]:
    """Return the value with the axes that are read backwards flipped, and the steps along it that are left.

    Raises:
        Refused: when bounds are computed, from which the flipped bounds would have to be.
    """
    found, shape = dict(by_axis), view.shape()
    for axis, (start, end, step) in by_axis.items():
        if step > 0:
            continue
        size = shape[axis]
        if not isinstance(start, int) or not isinstance(end, int):
            raise Refused
        if isinstance(size, int):
            taken = range(*slice(start, None if end <= -_OPEN else end, step).indices(size))
            first, last = (size - 1 - taken[0], size - taken[-1]) if taken else (0, 0)
        else:  # place i from the front is place -1 - i of the reversed axis; an empty slice is never reversed
            first = 0 if start >= _OPEN - 1 else -1 - start
            last = _OPEN if end <= -_OPEN else -1 - end
        if (first, step) == (0, -1) and last in (size, _OPEN):
            del found[axis]
        else:
            found[axis] = (first, last, -step)
    flipped = tuple(sorted(axis for axis, (_, _, step) in by_axis.items() if step < 0))
    return (call("ops.flip", view.use(0), flipped), found) if flipped else (view.atom(), found)


def _subscripts(by_axis: Steps) -> list[Part]:
    """Return what stands between the brackets, up to the last axis that is cut."""
    parts: list[Part] = []
    for axis in range(max(by_axis) + 1):
        if axis:
            parts.append(", ")
        start, end, step = by_axis.get(axis, (0, _OPEN, 1))
        parts += [_bound(start, "start"), ":"] if not isinstance(start, int) or start else [":"]
        parts += [_bound(end, "stop")] if not isinstance(end, int) or end < _OPEN - 1 else []
        parts += [":", Literal(step, "step")] if step != 1 else []
    return parts


def _bound(bound: Part | int, hint: str) -> Part:
    return Literal(bound, hint) if isinstance(bound, int) else bound


@TABLE.call("Trilu")
def triangle(view: View) -> Expression:
    """Emit ops.tril, ops.triu."""
    diagonal = int(view.scalar(1, 0))
    return call("ops.triu" if view.operator.int("upper") else "ops.tril", view.use(0), diagonal)
