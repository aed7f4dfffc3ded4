"""Lowerings of order statistics, and of look-ups in sorted sequences."""

from __future__ import annotations

from ....ir import Value
from ...lowering_table import LoweringTable
from ..call import Call

TABLE = LoweringTable[Call]("torch")


def _ranked(call: Call, x: Value, composite: str, axis: int, **attributes: int) -> list[Value]:
    """(element, place); of a tensor without axes, itself."""
    if not call.rank(x):
        return [x, call.constant(0)]
    dtype = call.dtype_of(x)
    wide = call.cast(x, "int32" if dtype == "bool" else dtype)
    values, at = call.ops(f"regraft.{composite}", wide, outputs=2, types=None, axis=axis, **attributes)
    return [call.cast(values, dtype), at]


@TABLE.op("aten.kthvalue.default")
def kthvalue(call: Call) -> list[Value]:
    """Return the k-th smallest."""
    options = {"k": call.int("k"), "keepdims": call.flag("keepdim")}
    return _ranked(call, call.value("self"), "KthValue", call.axis("dim"), **options)


@TABLE.op("aten.median.dim", "aten.nanmedian.dim")
def median_along_axis(call: Call) -> list[Value]:
    """Return the middle element, the lower of two."""
    options = {"keepdims": call.flag("keepdim"), "ignore_nan": "nanmedian" in call.operator}
    return _ranked(call, call.value("self"), "Median", call.axis("dim"), **options)


@TABLE.op("aten.median.default", "aten.nanmedian.default")
def median(call: Call) -> Value:
    """Return the middle of all elements."""
    flat = call.op("Reshape", call.value("self"), call.constant([-1]))
    return _ranked(call, flat, "Median", 0, ignore_nan="nanmedian" in call.operator)[0]


def _searched(call: Call, name: str, edges: Value, *, right: bool) -> Value:
    """Return places of values, of any shape where the sequence has one axis."""
    call.ignore("out_int32")  # the result's type says it
    dtype = call.promoted(name, "self")
    found = call.op("regraft.SearchSorted", call.cast(edges, dtype), call.operand("self", dtype), right=right)
    return call.cast(found, call.dtype)


@TABLE.op("aten.searchsorted.Tensor", "aten.searchsorted.Scalar")
def searchsorted(call: Call) -> Value:
    """Find the insertion places of values in sorted sequences."""
    edges, sorter = call.value("sorted_sequence"), call.optional("sorter")
    if sorter is not None:
        edges = call.op("GatherElements", edges, sorter, axis=-1)
    right, side = call.flag("right"), call.arg("side", None)
    return _searched(call, "sorted_sequence", edges, right=right or side == "right")


@TABLE.op("aten.bucketize.Tensor", "aten.bucketize.Scalar")
def bucketize(call: Call) -> Value:
    """The bucket of each value; torch's own searches step by step, and branches on data for a number."""
    return _searched(call, "boundaries", call.value("boundaries"), right=call.flag("right"))
