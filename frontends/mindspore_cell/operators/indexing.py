"""Reading elements by index, and making index tensors."""

from __future__ import annotations

import numpy as np

from ....ir import Value
from ...lowering_table import LoweringTable
from ..call import Lowering, Use
from .math import as_type

TABLE: LoweringTable[Lowering] = LoweringTable("MindSpore")


@TABLE.op("Gather")
def gather(use: Use) -> Value:
    if use.argument(3, 0) != 0:
        raise use.unsupported("expected batch_dims of 0")
    return use.emit("Gather", use.tensor(0), use.tensor(1), axis=use.int(2))


@TABLE.op("GatherD")
def gather_elements(use: Use) -> Value:
    return use.emit("GatherElements", use.tensor(0), use.tensor(2), axis=use.int(1))


@TABLE.op("GatherNd")
def gather_nd(use: Use) -> Value:
    return use.emit("GatherND", use.tensor(0), as_type(use, use.tensor(1), "int64"))


@TABLE.op("TensorScatterUpdate")
def scatter_update(use: Use) -> Value:
    return use.emit("ScatterND", use.tensor(0), as_type(use, use.tensor(1), "int64"), use.tensor(2))


@TABLE.op("TensorScatterAdd")
def scatter_add(use: Use) -> Value:
    return use.emit(
        "ScatterND", use.tensor(0), as_type(use, use.tensor(1), "int64"), use.tensor(2), reduction="add"
    )


@TABLE.op("OneHot")
def one_hot(use: Use) -> Value:
    """Where an index is a class; negative ones are none, where ONNX's own operator counts from the end."""
    indices, depth, axis = use.tensor(0), use.int(1), use.int(4)
    axis += (use.rank(indices) + 1) * (axis < 0)
    classes = np.arange(depth, dtype=use.b.type_of(indices).dtype)
    classes = classes.reshape([-1, *[1] * (use.rank(indices) - axis)])
    found = use.b.op("Equal", use.b.op("Unsqueeze", indices, use.b.constant([axis])), use.b.constant(classes))
    return use.emit("Where", found, use.tensor(2), use.tensor(3))


@TABLE.op("TopK")
def top_k(use: Use) -> tuple[Value, Value]:
    values, indices = use.b.ops(
        "TopK",
        use.tensor(0),
        use.b.constant([use.int(1)]),
        outputs=2,
        sorted=int(bool(use.attributes.get("sorted"))),
    )
    return values, as_type(use, indices, use.types[1].dtype)


@TABLE.op("FillV2")
def fill(use: Use) -> Value:
    return use.emit("Expand", use.tensor(1), use.shape_value(use.dims(0)))


@TABLE.op("Sort")
def sort(use: Use) -> tuple[Value, Value]:
    """TopK of the whole axis; ONNX says nothing of the order of equals."""
    x, axis = use.tensor(0), use.attribute_int("axis")
    size = (use.b.type_of(x).shape or ())[axis]
    if not isinstance(size, int):
        raise use.unsupported("expected a static axis")
    largest = int(bool(use.attributes.get("descending")))
    values, indices = use.b.ops("TopK", x, use.b.constant([size]), outputs=2, axis=axis, largest=largest)
    return values, as_type(use, indices, use.types[1].dtype)
