"""Reductions."""

from __future__ import annotations

from ....ir import Value
from ...lowering_table import LoweringTable
from ..call import Lowering, Use
from .math import as_type

TABLE: LoweringTable[Lowering] = LoweringTable("MindSpore")
_REDUCTIONS = {
    "ReduceMean": "ReduceMean",
    "ReduceSum": "ReduceSum",
    "ReduceMax": "ReduceMax",
    "ReduceMin": "ReduceMin",
    "ReduceProd": "ReduceProd",
    "SumExt": "ReduceSum",
    "MeanExt": "ReduceMean",
    "ProdExt": "ReduceProd",
}


@TABLE.op(*_REDUCTIONS)
def reduce(use: Use) -> Value:
    """No axes means all of them; the Ext forms may name a result type; ReduceSum may skip on empty axes."""
    x = use.tensor(0)
    axes = [] if use.argument(1) is None else use.ints(1)
    keep = bool(use.argument(2, False))
    if use.node.op in ("SumExt", "MeanExt", "ProdExt"):
        use.ignore(3)  # the result's type, which MindIR states as the node's own
        x = as_type(use, x, use.type.dtype)
    elif use.node.op == "ReduceSum" and use.argument(3, False) and not axes:
        return x
    return use.emit(_REDUCTIONS[use.node.op], x, use.b.constant(axes) if axes else None, keepdims=int(keep))


@TABLE.op("ReduceAll", "ReduceAny")
def reduce_logic(use: Use) -> Value:
    """All is the minimum of 0 and 1, any the maximum."""
    x = as_type(use, use.tensor(0), "int32")
    axes = [] if use.argument(1) is None else use.ints(1)
    op = "ReduceMin" if use.node.op == "ReduceAll" else "ReduceMax"
    found = use.b.op(
        op, x, use.b.constant(axes) if axes else None, keepdims=int(bool(use.argument(2, False)))
    )
    return as_type(use, found, "bool")


@TABLE.op("Max", "Min")
def extreme(use: Use) -> Value:
    """Over all elements."""
    return use.emit("ReduceMax" if use.node.op == "Max" else "ReduceMin", use.tensor(0), keepdims=0)


@TABLE.op("ArgMaxWithValue", "ArgMinWithValue")
def extreme_with_index(use: Use) -> tuple[Value, Value]:
    """(indices, values) along one axis."""
    x, axis, keep = use.tensor(0), use.int(1), int(bool(use.argument(2, False)))
    largest = use.node.op == "ArgMaxWithValue"
    index = as_type(
        use, use.b.op("ArgMax" if largest else "ArgMin", x, axis=axis, keepdims=keep), use.types[0].dtype
    )
    value = use.b.op("ReduceMax" if largest else "ReduceMin", x, use.b.constant([axis]), keepdims=keep)
    return index, value


@TABLE.op("Argmax", "Argmin")
def arg_extreme(use: Use) -> Value:
    """The first of equals; the result's type is named."""
    op = "ArgMax" if use.node.op == "Argmax" else "ArgMin"
    return as_type(use, use.b.op(op, use.tensor(0), axis=use.int(1), keepdims=0), use.dtype(2))


@TABLE.op("CumSum")
def cumulative_sum(use: Use) -> Value:
    return use.emit(
        "CumSum", use.tensor(0), use.b.constant(use.int(1)), exclusive=use.int(2), reverse=use.int(3)
    )


@TABLE.op("LpNorm")
def lp_norm(use: Use) -> Value:
    """P = 1 or 2; the epsilon only guards a division that this primitive does not do."""
    order, axes = use.attribute_int("p"), use.attribute_ints("axis")
    use.attributes.ignore("epsilon")
    keep = int(bool(use.attributes.get("keep_dims")))
    if order not in (1, 2):
        raise use.unsupported(f"expected p of 1 or 2, got {order}")
    return use.emit(f"ReduceL{order}", use.tensor(0), use.b.constant(axes), keepdims=keep)


@TABLE.op("ReduceStd")
def std_and_mean(use: Use) -> tuple[Value, Value]:
    """(standard deviation, mean); unbiased divides by n - 1."""
    x, axes, keep = use.tensor(0), use.ints(1), int(bool(use.argument(3)))
    unbiased = bool(use.argument(2))
    shape = use.b.type_of(x).shape or ()
    over = [shape[a] for a in axes] if axes else list(shape)
    count = 1
    for dim in over:
        if not isinstance(dim, int):
            raise use.unsupported("expected static reduced dimensions")
        count *= dim
    picked = use.b.constant(axes) if axes else None
    mean = use.b.op("ReduceMean", x, picked, keepdims=1)
    total = use.b.op("ReduceSumSquare", use.b.op("Sub", x, mean), picked, keepdims=keep)
    variance = use.b.op("Div", total, use.b.scalar_like(count - 1 if unbiased else count, x))
    plain = mean if keep else use.b.op("ReduceMean", x, picked, keepdims=0)
    return use.b.op("Sqrt", variance), plain
