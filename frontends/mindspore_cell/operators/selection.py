"""Medians, and places in sorted sequences."""

from __future__ import annotations

from ....ir import Value
from ...lowering_table import LoweringTable
from ..call import Call

TABLE = LoweringTable[Call]("MindSpore")


@TABLE.op("Median")
def median(call: Call) -> list[Value]:
    """Return the middle element along an axis, the lower of two, and its place."""
    call.require("global_median", False)
    call.ignore("cust_aicpu")
    return call.ops(
        "regraft.Median",
        call.value(0),
        outputs=2,
        axis=call.int("axis"),
        keepdims=call.flag("keep_dims"),
        ignore_nan=call.flag("ignore_nan"),
    )


@TABLE.op("SearchSorted")
def search_sorted(call: Call) -> Value:
    """Return places of values in the last axis of a sequence, which another input may put in order."""
    call.ignore(3)  # the result's type, which MindIR states as the node's own
    edges, order = call.value(0), call.optional(2)
    if order is not None:
        edges = call.op("GatherElements", edges, order, axis=-1)
    found = call.op("regraft.SearchSorted", edges, call.value(1), right=call.flag(4))
    return call.cast(found, call.dtype)
