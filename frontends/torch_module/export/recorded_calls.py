"""Calls of modules in a trace, the nodes that it recorded of them, and copies of these for other calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..aliases import MEMORY, storage_of
from .module_likeness import Unlike

if TYPE_CHECKING:
    from torch.fx import Node
    from torch.nn import Module

Calls = list[tuple[tuple[str, ...], "Module | None"]]
"""Keys ``path@n`` of each call of a module, from the root's, and the module."""

Stack = dict[str, tuple[str, str]]
"""Modules that are being called, as nodes have them: key -> path and class."""


@dataclass(slots=True)
class Call:
    """A call that may repeat another.

    Attributes:
        key: equal for calls whose traces record the same.
        tensors: those of the arguments, then parameters and buffers, each once.
        nodes: the nodes of these.
        memories: the storages of these.
        modules: path below the module, with a leading dot -> module; its own at "".
        path: the module's path.
        counts: earlier calls of each of them, by that path.
        keys: the keys of the call and of those around, as torch has them.
        chain: the same as `Calls` has them.
        trace: the lines of code that led here.
        modes: the modes of torch.
    """

    key: Any
    tensors: list[Any]
    nodes: list[Node]
    memories: list[int | None]
    modules: dict[str, Module]
    path: str
    counts: dict[str, int]
    keys: list[str]
    chain: tuple[str, ...]
    trace: str
    modes: Any

    def split(self, key: str, path: str) -> tuple[str, int]:
        """Return the path below the module of a key of a module inside, and the number of its call.

        Raises:
            Unlike: when it is no module inside.
        """
        full, _, number = key.partition("@")
        below = full.removeprefix(path)
        if below == full or below not in self.modules:
            raise Unlike
        return below, int(number or 0)

    def moved(self, key: str, other: Call, old: str, new: str) -> str:
        """Return the key of a module inside for a key inside an equal call, at their paths."""
        below, number = other.split(key, old)
        number += self.counts[below] - other.counts[below]
        return f"{new}{below}" + (f"@{number}" if number else "")


@dataclass(slots=True)
class Op:
    """A node as it was when a call ended: torch's passes change nodes, or make others of them.

    Attributes:
        node: the node, by which the arguments of others name it.
        target: its function.
        args: its arguments.
        kwargs: those by keyword.
        meta: what the tracer noted of it.
        type: torch's note of its type.
        name: what it would be called if nothing else were.
        memory: the storage of its tensor.
    """

    node: Node
    target: Any
    args: Any
    kwargs: Any
    meta: dict[str, Any]
    type: Any
    name: str
    memory: int | None

    @classmethod
    def of(cls, node: Node, name: str) -> Op:
        """Return a node as it is now."""
        meta = dict(node.meta)
        return cls(node, node.target, node.args, node.kwargs, meta, node.type, name, storage_of(node))

    def moved(self, node: Node, args: Any, kwargs: Any, meta: dict[str, Any]) -> Op:
        """Return the same on other arguments."""
        return Op(node, self.target, args, kwargs, meta, self.type, self.name, meta.get(MEMORY))

    def inputs(self) -> Iterator[Node]:
        """Yield the nodes among the arguments."""
        from torch.fx import map_arg

        found: list[Node] = []
        map_arg((self.args, self.kwargs), found.append)
        yield from found


@dataclass(slots=True)
class ResultTensor:
    """A tensor of a result: one that was given, or that of a recorded node.

    Attributes:
        given: its place among the tensors given, or None.
        node: its node's place among those recorded.
        layout: sizes, strides, element type and device.
    """

    given: int | None
    node: int = 0
    layout: tuple[Any, ...] = ()


@dataclass(slots=True)
class Record:
    """The record of the trace of a call.

    Attributes:
        call: the call.
        ops: its nodes.
        result: its result, with a `ResultTensor` for every tensor.
        read: path below the module and attribute -> value, of attributes that vary.
        calls: the calls of modules inside it, its own the first.
        made: the calls of each module inside.
        others: place of a tensor given -> place of the node that it has since, as `to` its own type does.
        sizes: nodes of sizes from outside.
        results: places of the nodes that what follows may read.
        can_stand: whether a node for each of these may stand for all, see `stand_ins`.
    """

    call: Call
    ops: list[Op]
    result: Any
    read: dict[tuple[str, str], Any]
    calls: Calls
    made: dict[str, int]
    others: dict[int, int]
    sizes: list[Node]
    results: list[int]
    can_stand: bool = False


Make = Callable[[int, Op, Any, Any, dict[str, Any]], "Node"]
"""(place, operator, arguments, those by keyword, notes) -> the node that copies it."""


class Copying:
    """Copies what a call recorded for another.

    Args:
        record: the record.
        call: the other call.
        values: place -> tensor, of those results that are new.
        storages: numbers for storages that the tensors of the other copies would have.
    """

    def __init__(
        self, record: Record, call: Call, values: Mapping[int, Any], storages: Iterator[int]
    ) -> None:
        self.record, self.call = record, call
        self._values, self._storages = values, storages
        self._own = dict(zip(record.call.memories, call.memories, strict=True))
        for at, value in values.items():
            self._own[record.ops[at].memory] = value.untyped_storage()._cdata
        self._stacks: dict[tuple[str, ...], Stack] = {}
        self._around: Stack = {}

    def notes(self, at: int, around: Stack) -> dict[str, Any]:
        """Return the notes of the copy of a node.

        Args:
            at: its place.
            around: the modules of the other call, and around it.
        """
        if around is not self._around:
            self._around = around
            self._stacks.clear()
        op, was = self.record.ops[at], self.record.call
        found = dict(op.meta)
        stack = found["nn_module_stack"]
        keys = tuple(stack)
        if keys not in self._stacks:
            self._stacks[keys] = {**around, **dict(self._inside(stack))}
        found["nn_module_stack"] = self._stacks[keys].copy()
        if trace := found.get("stack_trace"):
            found["stack_trace"] = self.call.trace + trace[len(was.trace) :]
        if at in self._values:
            found["val"] = self._values[at]
        if op.memory is not None:
            if op.memory not in self._own:
                self._own[op.memory] = next(self._storages)
            found[MEMORY] = self._own[op.memory]
        return found

    def copy(self, given: Sequence[Node], around: Stack, make: Make) -> list[Node]:
        """Return copies of all nodes.

        Args:
            given: the nodes that the other call was given, and those of sizes from outside.
            around: the modules of the other call, and around it.
            make: adds a copy to a graph.
        """
        from torch.fx import map_arg

        record = self.record
        copies = dict(zip([*record.call.nodes, *record.sizes], given, strict=True))
        made: list[Node] = []

        def copied(node: Node) -> Node:
            return copies.get(node, node)

        for at, op in enumerate(record.ops):
            args, kwargs = map_arg(op.args, copied), map_arg(op.kwargs, copied)
            copies[op.node] = node = make(at, op, args, kwargs, self.notes(at, around))
            made.append(node)
        return made

    def _inside(self, stack: Stack) -> Iterator[tuple[str, tuple[str, str]]]:
        """Yield the modules of a node's stack inside its call, as those of the other call."""
        was, items = self.record.call, list(stack.items())
        depth = len(was.keys)
        (old_key, (old_path, _)), (new_key, (new_path, _)) = items[depth - 1], list(self._around.items())[-1]
        old, new = (key.partition("@")[0] for key in (old_key, new_key))
        for key, (path, kind) in items[depth:]:
            yield self.call.moved(key, was, old, new), (new_path + path.removeprefix(old_path), kind)
