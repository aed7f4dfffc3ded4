"""Images of a data pipeline, which come as (height, width, channels) or a batch of them."""

from __future__ import annotations

import numpy as np

from ....ir import Value
from ...lowering_table import LoweringTable
from ..call import Call

TABLE = LoweringTable[Call]("MXNet")


@TABLE.op("_image_to_tensor")
def to_tensor(call: Call) -> Value:
    """Channels first, 255 becomes 1."""
    x, rank = call.value(0), call.rank()
    first = [*range(rank - 3), rank - 1, rank - 3, rank - 2]
    found = call.cast(call.op("Transpose", x, perm=first), "float32")
    return call.op("Div", found, call.scalar_like(255, found))


@TABLE.op("_image_normalize")
def normalize(call: Call) -> Value:
    """Less the mean, over the deviation, channel by channel."""
    x = call.value(0)
    mean, deviation = (
        call.constant(np.array(call.floats(key, default), np.float32).reshape(-1, 1, 1), call.dtype_of(x))
        for key, default in (("mean", (0.0,)), ("std", (1.0,)))
    )
    return call.op("Div", call.op("Sub", x, mean), deviation)
