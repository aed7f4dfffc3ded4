"""Writes through views: the new value of what a view operator views, from the new value of the view."""

from __future__ import annotations

from collections.abc import Callable

from ...ir import Value
from .call import Call
from .operators.indexing import replaced

Inverse = Callable[[Call, Value], "Value | None"]
"""(the view's call, its new value) -> the new value of its `self`."""


def _reshaped(call: Call, new: Value) -> Value:
    return call.reshape(new, call.shape("self"))


def _permuted_back(call: Call, new: Value, perm: list[int]) -> Value:
    return call.op("Transpose", new, perm=[perm.index(axis) for axis in range(len(perm))])


def _transpose(call: Call, new: Value) -> Value:
    perm = list(range(call.rank("self")))
    a, b = call.axis("dim0"), call.axis("dim1")
    perm[a], perm[b] = perm[b], perm[a]
    return _permuted_back(call, new, perm)


def _permute(call: Call, new: Value) -> Value:
    return _permuted_back(call, new, [call.from_front(a, call.rank("self")) for a in call.ints("dims")])


def _last_two_swapped(call: Call, new: Value) -> Value:
    perm = list(range(call.rank("self")))
    return _permuted_back(call, new, perm[:-2] + perm[-2:][::-1])


def _select(call: Call, new: Value) -> Value:
    axis, at = call.axis("dim"), call.arg("index")
    part = call.op("Unsqueeze", new, call.constant([axis]))
    return replaced(call, call.value("self"), part, axis, at, at + 1 if at != -1 else None)


def _slice(call: Call, new: Value) -> Value:
    if tuple(call.shape("self")) == tuple(call.result_shape):
        return new  # the whole axis, however it was written
    start, end, step = call.arg("start"), call.arg("end"), call.int("step")
    return replaced(call, call.value("self"), new, call.axis("dim"), start, end, step)


INVERSES: dict[str, Inverse] = {
    **dict.fromkeys(
        (
            "aten.view.default",
            "aten.reshape.default",
            "aten.flatten.using_ints",
            "aten.unflatten.int",
            "aten.unsqueeze.default",
            "aten.squeeze.default",
            "aten.squeeze.dim",
            "aten.squeeze.dims",
            "aten.alias.default",
            "aten.detach.default",
            "aten.contiguous.default",
        ),
        _reshaped,
    ),
    "aten.transpose.int": _transpose,
    "aten.permute.default": _permute,
    "aten.t.default": _last_two_swapped,
    "aten.select.int": _select,
    "aten.slice.Tensor": _slice,
}
"""View operator -> its inverse."""
