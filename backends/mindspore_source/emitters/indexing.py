"""Looking up: embeddings, gathers, slices."""

from __future__ import annotations

import numpy as np

from ....ir import Parameter
from ...source.emitters.subscripts import gather_by_subscript, slice_by_subscript
from ...source.emitting import (
    Always,
    Call,
    EmitterTable,
    Expression,
    Literal,
    NnLayer,
    Refused,
    State,
    View,
)
from ...source.expressions import (
    ADD,
    COMPARE,
    Attribute,
    Brackets,
    Element,
    Helper,
    call,
    infix,
    method,
)
from .initializers import construct, drawn

TABLE = EmitterTable()


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
    return NnLayer(_table(weight, _padding_row(view)), (State(0, "embedding_table"),), inputs=(1,))


def _table(weight: Parameter, padding: object) -> Call:
    """Return the constructor call of an nn.Embedding."""
    rows, size = weight.data.shape
    return construct(
        "Embedding",
        vocab_size=rows,
        embedding_size=size,
        drawn=drawn("Embedding", "embedding_table", weight),
        padding_idx=padding,
    )


def _padding_row(view: View) -> Always | tuple[()]:
    """Return the row that MindSpore's own layer began as zeros, where the source is one."""
    tree, call_ = view.graph.modules, view.operator.call
    if call_ is None or view.graph.origin.framework != "mindspore":
        return ()
    module = tree.module(tree.call(call_).module)
    row = module.arguments.get("padding_idx") if module.class_name == "Embedding" else None
    return Always(row) if isinstance(row, int) else ()


@TABLE.layer("regraft.PaddedEmbedding")
def padded_embedding(view: View) -> NnLayer:
    """Emit nn.Embedding that keeps the gradient off its padding row, which MindSpore's own does not."""
    weight = view.parameter(0)
    if len(weight.data.shape) != 2 or view.constant(1) is not None or weight.data.dtype != "float32":
        raise Refused
    arguments = _table(weight, Always(view.operator.int("padding_idx"))).arguments
    return NnLayer(Call(Helper("PaddedEmbedding"), arguments), (State(0, "embedding_table"),), inputs=(1,))


@TABLE.call("regraft.PaddedEmbedding")
def padded_rows(view: View) -> Expression:
    """Emit ops.gather of rows; rows of padding pass no gradient."""
    rows = call("ops.gather", view.use(0), view.use(1), 0)
    padding = infix(view.use(1, ADD), "==", Literal(view.operator.int("padding_idx"), "padding"), COMPARE)
    hidden = method(Brackets(padding), "expand_dims", -1)
    return call("ops.where", hidden, call("ops.stop_gradient", rows), rows)


PADDED_EMBEDDING = '''class PaddedEmbedding(nn.Embedding):
    """nn.Embedding whose padding row has no gradient, as in torch."""

    def construct(self, ids):
        rows = ops.gather(self.embedding_table, ids, 0)
        padding = (ids == self.padding_idx).expand_dims(-1)
        return ops.where(padding, ops.stop_gradient(rows), rows)
'''
"""The class for such layers in an emitted file."""


@TABLE.call("Gather")
def gather(view: View) -> Expression:
    """Emit a subscript for a constant index, ops.gather otherwise."""
    axis = view.operator.int("axis")
    found = gather_by_subscript(view)
    if found is not None:
        return found
    indices = view.constant(1)
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


@TABLE.call("Slice")
def slice_(view: View) -> Expression:
    """Emit ``x[:, 1:3]``."""
    return slice_by_subscript(view, flip="ops.flip")


@TABLE.call("Trilu")
def triangle(view: View) -> Expression:
    """Emit ops.tril, ops.triu."""
    diagonal = int(view.scalar(1, 0))
    return call("ops.triu" if view.operator.int("upper") else "ops.tril", view.use(0), diagonal)
