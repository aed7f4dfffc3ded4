"""Reading elements by index, and making index tensors."""

from __future__ import annotations

import numpy as np

from ....ir import Value
from ...lowering_table import LoweringTable
from ..call import Call

TABLE = LoweringTable[Call]("MindSpore")


@TABLE.op("Gather")
def gather(call: Call) -> Value:
    if call.arg(3, 0) != 0:
        raise call.unsupported("expected batch_dims of 0")
    return call.op("Gather", call.value(0), call.value(1), axis=call.int(2))


@TABLE.op("GatherD")
def gather_elements(call: Call) -> Value:
    return call.op("GatherElements", call.value(0), call.value(2), axis=call.int(1))


@TABLE.op("GatherNd")
def gather_nd(call: Call) -> Value:
    return call.op("GatherND", call.value(0), call.cast(call.value(1), "int64"))


@TABLE.op("TensorScatterUpdate")
def scatter_update(call: Call) -> Value:
    return call.op("ScatterND", call.value(0), call.cast(call.value(1), "int64"), call.value(2))


@TABLE.op("TensorScatterAdd")
def scatter_add(call: Call) -> Value:
    return call.op(
        "ScatterND", call.value(0), call.cast(call.value(1), "int64"), call.value(2), reduction="add"
    )


@TABLE.op("OneHot")
def one_hot(call: Call) -> Value:
    """Where an index is a class; negative ones are none, where ONNX's own operator counts from the end."""
    indices, depth, axis = call.value(0), call.int(1), call.int(4)
    rank = call.rank(indices)
    axis += (rank + 1) * (axis < 0)
    classes = np.arange(depth, dtype=call.dtype_of(indices)).reshape([-1, *[1] * (rank - axis)])
    found = call.op("Equal", call.op("Unsqueeze", indices, call.constant([axis])), call.constant(classes))
    return call.op("Where", found, call.value(2), call.value(3))


@TABLE.op("TopK")
def top_k(call: Call) -> tuple[Value, Value]:
    values, indices = call.ops(
        "TopK",
        call.value(0),
        call.constant([call.int(1)]),
        outputs=2,
        sorted=call.flag("sorted"),
    )
    return values, call.cast(indices, call.result_type(1).dtype)


@TABLE.op("FillV2")
def fill(call: Call) -> Value:
    return call.op("Expand", call.value(1), call.shape_value(call.sizes(0)))


@TABLE.op("Sort")
def sort(call: Call) -> tuple[Value, Value]:
    """TopK of the whole axis; ONNX says nothing of the order of equals."""
    x, axis = call.value(0), call.int("axis")
    (size,) = call.static_shape(x, [axis])
    largest = call.flag("descending")
    values, indices = call.ops("TopK", x, call.constant([size]), outputs=2, axis=axis, largest=largest)
    return values, call.cast(indices, call.result_type(1).dtype)
