"""Writes through views: the new value of what a view operator views, from the new value of the view."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...ir import Value
from .aliases import storage_of, written_argument
from .call import Call
from .nodes import graph_modules, target_name
from .operators.indexing import replaced

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.fx import Node

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

_SPLITS = {
    "aten.unbind.int",
    "aten.chunk.default",
    "aten.split.Tensor",
    "aten.split.sizes",
    "aten.split_with_sizes.default",
}


def take_parts_singly(program: ExportedProgram) -> None:
    """Make the parts of a memory that the program writes into views of it, each by an operator of its own.

    A part of `unbind`, `chunk` or `split` (`for row in x: row.copy_(y)`) is a row or a slice.
    """
    for module in graph_modules(program.graph_module):
        nodes = list(module.graph.nodes)
        targets = map(written_argument, nodes)
        written = {storage_of(target) for target in targets if target is not None} - {None}
        taken = [_taken_singly(node) for node in nodes if storage_of(node) in written]
        if any(taken):
            module.recompile()


def _taken_singly(node: Node) -> bool:
    """Replace one result of a split by a view of what is split; False where it is none."""
    split: Any = node.args[0] if node.target is operator.getitem else None
    view = _view_of_part(split, node.args[1]) if split and target_name(split.target) in _SPLITS else None
    if view is None:
        return False
    with node.graph.inserting_before(node):
        part = node.graph.call_function(*view)
    part.meta = dict(node.meta)
    node.replace_all_uses_with(part)
    node.graph.erase_node(node)
    return True


def _view_of_part(split: Node, number: Any) -> tuple[Any, tuple[Any, ...]] | None:
    """The operator and arguments that give one result of a split; None where an open size precedes it."""
    import torch

    is_unbound = target_name(split.target) == "aten.unbind.int"
    source, *others = split.args
    at = 0 if is_unbound else 1
    axis: Any = split.kwargs.get("dim", others[at] if len(others) > at else 0)
    if is_unbound:
        return torch.ops.aten.select.int, (source, axis, number)
    sizes = [fake.shape[axis] for fake in split.meta["val"][: number + 1]]
    if not all(isinstance(size, int) for size in sizes):
        return None
    return torch.ops.aten.slice.Tensor, (source, axis, sum(sizes[:-1]), sum(sizes))
