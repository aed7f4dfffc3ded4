"""Looking up: embeddings, gathers, scatters, slices."""

from __future__ import annotations

from ....ir import Graph, Operator, Parameter, Value
from ...source.emitters.settings import number, number_or
from ...source.emitters.subscripts import gather_by_subscript, slice_by_subscript
from ...source.emitting import (
    EmitterTable,
    Expression,
    NnLayer,
    Refused,
    State,
    View,
)
from ...source.expressions import (
    ATOM,
    MULTIPLY,
    Attribute,
    Element,
    Helper,
    Literal,
    Part,
    Quoted,
    call,
    infix,
    method,
)
from ...source.operators import INDEX
from .initializers import construct, dtype_argument, laws_of_layer

TABLE = EmitterTable()


def _embedding(view: View, padding: int | None) -> NnLayer:
    weight = view.parameter(0)
    known = view.constant(1) if view.has(1) else None
    is_number = known is not None and known.size == 1  # which no layer reads
    if len(weight.data.shape) != 2 or not view.has(1) or is_number:
        raise Refused
    rows, size = weight.data.shape
    constructor = construct(
        "Embedding",
        num_embeddings=rows,
        embedding_dim=size,
        padding_idx=padding,
        laws=laws_of_layer(view, "Embedding", {"weight": weight}),
        dtype=dtype_argument(weight),
    )
    return NnLayer(constructor, (State(0, "weight"),), inputs=(1,))


@TABLE.layer("Gather")
def embedding(view: View) -> NnLayer:
    """Emit nn.Embedding."""
    if view.operator.int("axis"):
        raise Refused
    indices = view.constant(1)
    if indices is not None and indices.size and indices.min() < 0:
        raise Refused
    return _embedding(view, None)


@TABLE.layer("regraft.PaddedEmbedding")
def padded_embedding(view: View) -> NnLayer:
    """Emit nn.Embedding with the row of padding."""
    return _embedding(view, view.operator.int("padding_idx"))


@TABLE.call("regraft.PaddedEmbedding")
def padded_rows(view: View) -> Expression:
    """Emit F.embedding with the row of padding."""
    row = view.operator.int("padding_idx")
    return call("F.embedding", view.tensor(1), view.tensor(0), padding_idx=row)


@TABLE.call("Gather")
def gather(view: View) -> Expression:
    """Emit a subscript for a constant index, F.embedding for rows of a parameter, a subscript otherwise."""
    found = gather_by_subscript(view)
    if found is not None:
        return found
    axis, rank = view.operator.int("axis") % view.rank(), view.rank()
    indices = view.constant(1)
    is_table = axis == 0 and rank == 2 and isinstance(view.graph.node(view.value(0).node), Parameter)
    if is_table and (indices is None or not indices.size or indices.min() >= 0):
        return call("F.embedding", view.tensor(1), view.tensor(0))
    return Expression((view.atom(), "[", ":, " * axis, view.tensor(1), "]"))


@TABLE.call("GatherElements")
def gather_elements(view: View) -> Expression:
    """Emit ``x.gather(axis, indices)``, whose indices are counted from the front."""
    axis = view.operator.int("axis")
    return method(view.tensor(0, ATOM), "gather", axis, _from_front(view, axis))


def _from_front(view: View, axis: int) -> Part:
    """Return indices counted from the front: ``indices % x.shape[1]`` where some may be negative."""
    if _is_counted_from_front(view.graph, view.value(1)):
        return view.tensor(1)
    return infix(view.tensor(1, MULTIPLY), "%", Element(Attribute(view.atom(), "shape"), axis), MULTIPLY)


@TABLE.call("GatherND")
def gather_nd(view: View) -> Expression:
    """Emit ``x[tuple(indices.unbind(-1))]``."""
    if count := view.operator.int("batch_dims"):
        return call(Helper("gathered"), view.tensor(0), view.tensor(1), count)
    return Expression(
        (view.tensor(0, ATOM), "[", call("tuple", method(view.tensor(1, ATOM), "unbind", -1)), "]")
    )


@TABLE.call(INDEX)
def subscript(view: View) -> Expression:
    """Emit ``x[:, i, j]``."""
    indices: list[Part] = [":"] * view.operator.int("axis")
    indices += [view.tensor(slot) for slot in range(1, len(view.operands))]
    parts = [part for index in indices for part in (", ", index)]
    return Expression((view.atom(), "[", *parts[1:], "]"))


_REDUCTIONS = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


_MOVES = (
    "Unsqueeze",
    "Squeeze",
    "Expand",
    "Reshape",
    "Transpose",
    "Flatten",
    "Tile",
    "Slice",
    "Split",
    "Gather",
)
"""Operators whose results are elements of their first operand."""


def _is_counted_from_front(graph: Graph, value: Value, depth: int = 8) -> bool:
    """Whether no index is negative: constants that are not, places that an operator found, or torch's own."""
    known = graph.constant_value(value)
    if known is not None:
        return not known.size or bool(known.min() >= 0)
    if graph.origin.framework == "torch":
        return True
    node = graph.producer(value)
    if not isinstance(node, Operator) or not depth:
        return False
    if node.op_type in ("ArgMax", "ArgMin", "NonZero") or (node.op_type == "TopK" and value.output == 1):
        return True
    if node.op_type in (*_MOVES, "Cast", "Identity"):
        first = graph.operands(node.key)[0]
        return first is not None and _is_counted_from_front(graph, first, depth - 1)
    return False


_MOST_BOXES = 1 << 31
"""More boxes than a tensor of them could hold: such a limit is none."""


@TABLE.call("ScatterElements")
def scatter_elements(view: View) -> Expression:
    """Emit ``x.scatter(axis, indices, values)`` and its kin, whose indices are counted from the front."""
    axis, reduction = view.operator.int("axis"), view.operator.str("reduction")
    operands = (_from_front(view, axis), view.tensor(2))
    x = view.tensor(0, ATOM)
    if reduction == "none":
        return method(x, "scatter", axis, *operands)
    if reduction == "add":
        return method(x, "scatter_add", axis, *operands)
    return method(x, "scatter_reduce", axis, *operands, reduce=_REDUCTIONS[reduction])


@TABLE.call("ScatterND")
def scatter_nd(view: View) -> Expression:
    """Emit ``x.index_put(indices, values)``, alone or adding."""
    reduction = view.operator.str("reduction")
    if reduction not in ("none", "add"):
        name = Quoted(_REDUCTIONS[reduction])
        return call(Helper("scattered"), *(view.tensor(slot) for slot in range(3)), name)
    places = call("tuple", method(view.tensor(1, ATOM), "unbind", -1))
    accumulate = True if reduction == "add" else None
    return method(view.tensor(0, ATOM), "index_put", places, view.tensor(2), accumulate=accumulate)


@TABLE.call("NonZero")
def nonzero(view: View) -> Expression:
    """Emit ``x.nonzero().T``, as torch returns one row per place."""
    return Expression((Attribute(method(view.tensor(0, ATOM), "nonzero"), "T"),))


@TABLE.call("Compress")
def compress(view: View) -> Expression:
    """Emit a subscript by truths, for vectors."""
    if view.rank(0) != 1 or view.operator.attribute("axis") not in (None, 0):
        raise Refused
    if view.shape(0) != view.shape(1):
        raise Refused
    return Expression((view.tensor(0, ATOM), "[", view.tensor(1), "]"))


@TABLE.call("Unique")
def unique(view: View) -> Expression:
    """Emit torch.unique for sorted values alone, else a function of the file's own."""
    if view.operator.attribute("axis") is not None:
        raise Refused
    is_sorted = bool(view.operator.int("sorted"))
    if view.used_outputs() == 1 and is_sorted:
        return call("torch.unique", view.tensor(0))
    found = call(Helper("unique"), view.tensor(0), is_sorted)
    return Expression(found.parts, outputs=4)


@TABLE.call("NonMaxSuppression")
def non_max_suppression(view: View) -> Expression:
    """Emit a call of the emitted file's own function; where all boxes may be kept, it is given no limit."""
    most = number_or(view, 2, 0, "int")
    if isinstance(most, Literal) and int(str(most.value)) > _MOST_BOXES:
        most = None
    score = number_or(view, 4, float("-inf"), "float") if view.has(4) else None
    is_centred = True if view.operator.int("center_point_box") else None
    overlap = number_or(view, 3, 0.0, "float")
    return call(
        Helper("non_max_suppression"), view.tensor(0), view.tensor(1), overlap,
        most=most, score=score, is_centred=is_centred,
    )  # fmt: skip


@TABLE.call("RoiAlign")
def roi_align(view: View) -> Expression:
    """Emit a function of the file's own."""
    operator = view.operator
    size = (operator.int("output_height"), operator.int("output_width"))
    is_half = operator.str("coordinate_transformation_mode") == "half_pixel"
    return call(
        Helper("roi_align"),
        *(view.tensor(slot) for slot in range(3)),
        size,
        max(operator.int("sampling_ratio"), 0),
        operator.float("spatial_scale"),
        0.5 if is_half else 0.0,
        is_largest=True if operator.str("mode") == "max" else None,
    )


@TABLE.call("Slice")
def slice_(view: View) -> Expression:
    """Emit ``x[:, 1:3]``."""
    return slice_by_subscript(view, flip="torch.flip")


@TABLE.call("TopK")
def top_k(view: View) -> Expression:
    """Emit ``x.topk(k)``; where equal elements have an order, ``top_k(x, k)``, which keeps it."""
    axis = view.operator.int("axis")
    largest = None if view.operator.int("largest") else False
    if view.used_outputs() > 1 and view.graph.origin.framework != "torch":
        dim = axis if axis != -1 else None
        found = call(Helper("top_k"), view.tensor(0), number(view, 1, "k"), axis=dim, largest=largest)
        return Expression(found.parts, outputs=2)
    found = method(
        view.tensor(0, ATOM),
        "topk",
        number(view, 1, "k"),
        dim=axis if axis != -1 else None,
        largest=largest,
        sorted=None if view.operator.int("sorted") else False,
    )
    return Expression(found.parts, outputs=2)


@TABLE.call("regraft.SearchSorted")
def search_sorted(view: View) -> Expression:
    """Emit torch.searchsorted."""
    right = True if view.operator.int("right") else None
    return call("torch.searchsorted", view.tensor(0), view.tensor(1), right=right)


@TABLE.call("regraft.Median")
def median(view: View) -> Expression:
    """Emit torch.median, torch.nanmedian."""
    function = "torch.nanmedian" if view.operator.int("ignore_nan") else "torch.median"
    keep = True if view.operator.int("keepdims") else None
    found = call(function, view.tensor(0), view.operator.int("axis"), keepdim=keep)
    return Expression(found.parts, outputs=2)
