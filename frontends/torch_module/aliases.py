"""In-place operators as single assignments: after a write, every alias stands for the new value."""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

from ...ir import Graph, Input, Parameter, UnsupportedError, Value
from ..complex_numbers import Complex
from .nodes import RELEASE, target_name

if TYPE_CHECKING:
    from torch.fx import Node

WriteBack = Callable[["Node", Value], "Value | None"]
"""(view, its new value) -> the new value of what it views, or None where that cannot be said."""


class WriteError(UnsupportedError):
    """A write in place that is not followed here; PyTorch's own functionalisation may know a way."""


MEMORY = "regraft_memory"
"""In a node's meta: its tensor's storage, where `val` is the tensor of a node that it copies."""


class Aliases:
    """Tracks fx nodes that share memory, and updates them when one is overwritten.

    Args:
        graph: the graph being built.
        environment: fx node -> value; changed by `mutated`.
        replay: lowers a view operator again.
        write_back: carries a write into a view back to what it views.

    Attributes:
        started: fx nodes whose lowering has begun.
        notes: inputs that the model overwrites.
    """

    def __init__(
        self,
        graph: Graph,
        environment: dict[Node, Any],
        replay: Callable[[Node], Any],
        write_back: WriteBack,
    ) -> None:
        self._graph, self._environment = graph, environment
        self._replay, self._write_back = replay, write_back
        self._sets: dict[int, list[Node]] = {}
        self._states: dict[Node, int] = {}
        self._views: dict[Node, Hashable] = {}
        self.started: set[Node] = set()
        self.notes: list[str] = []

    def add(self, node: Node) -> None:
        """Note a node whose value has just been lowered."""
        storage = storage_of(node)
        if storage is not None:
            self._sets.setdefault(storage, []).append(node)

    def mutated(self, node: Node, target: Node, place: str) -> None:
        """Update every node on the memory of `target`, into which `node` has written its result.

        Raises:
            UnsupportedError: when an alias that is read later cannot be expressed by the new value.
        """
        storage = storage_of(target)
        if storage is None:
            return
        written = self._environment[node]
        if not isinstance(written, (Value, Complex)) or (
            isinstance(written, Complex) and self._is_state(storage)
        ):
            raise WriteError(
                "E203",
                f"`{node.target}` has several results and also writes into `{target.name}` besides",
                place=place,
                hint="call the variant that returns its result in place of writing it",
            )
        fresh = {node: written, **self._chain(target, written)}
        seen: dict[Hashable, Value | Complex] = {}
        for member, value in fresh.items():
            seen.setdefault(self._view(member), value)
        for other in self._needed(storage):  # in program order, so that a view of a view comes after it
            new = fresh.get(other, seen.get(self._view(other)))
            source = written_argument(other) or view_source(other)
            if new is None and source in fresh:
                new = fresh[source] if written_argument(other) else self._replay(other)
            if new is not None:
                self._note_state(other, new)
                self._environment[other] = fresh[other] = new
                seen.setdefault(self._view(other), new)
            elif self._is_read_later(other) and not _are_parts(other, target):
                raise WriteError(
                    "E203",
                    f"`{node.target}` writes into a view (`{target.name}`), and `{other.name}`, "
                    "which shares its memory, is read later",
                    place=place,
                    hint="write the operation without changing a view in place",
                )

    def release(self, node: Node, place: str) -> None:
        """Check that nothing reads the tensor whose memory `x.set_()` gives up.

        Raises:
            UnsupportedError: when something reads it, or another view of the same elements, later.
        """
        target: Any = node.args[0]
        members = self._sets.get(storage_of(target) or 0, [target])
        if node.users or any(self._view(m) == self._view(target) and self._is_read_later(m) for m in members):
            raise UnsupportedError(
                "E203",
                f"`{target.name}` is read after `set_()`, which leaves it without elements",
                place=place,
                hint="remove the call of set_(): it frees memory and computes nothing",
            )

    def _needed(self, storage: int) -> list[Node]:
        """Return nodes on a memory that are read later, or viewed by such a node, in program order."""
        needed: set[Node] = set()
        members = self._sets[storage]
        for other in reversed(members):
            if other in needed or other.op == "placeholder" or self._is_read_later(other):
                needed.add(other)
                source = written_argument(other) or view_source(other)
                if source is not None:
                    needed.add(source)
        return [other for other in members if other in needed]

    def _view(self, node: Node) -> Hashable:
        """Return the elements of its memory that a node sees."""
        if node not in self._views:
            fake = node.meta["val"]
            sizes = [str(size) for size in (*fake.shape, *fake.stride(), fake.storage_offset())]
            self._views[node] = (fake.dtype, *sizes)
        return self._views[node]

    def _is_state(self, storage: int) -> bool:
        """Return whether a memory is that of a parameter or buffer."""
        values = (self._environment[n] for n in self._sets[storage] if n.op == "placeholder")
        return any(isinstance(v, Value) and isinstance(self._graph.producer(v), Parameter) for v in values)

    def _chain(self, target: Node, new: Value | Complex) -> dict[Node, Value | Complex]:
        """Return the target, its views up to the memory's first name, with their new values."""
        chain: dict[Node, Value | Complex] = {target: new}
        while True:
            written = written_argument(target)
            source = written or view_source(target)
            if source is None or storage_of(source) != storage_of(target):
                return chain
            if written is None:
                carried = self._write_back(target, new) if isinstance(new, Value) else None
                if carried is None:
                    return chain
                new = carried
            chain[source] = new
            target = source

    def _is_read_later(self, node: Node) -> bool:
        """Whether something not yet lowered reads a value, or it is state that outlives the run."""
        if any(user not in self.started for user in node.users):
            return True
        value = self._environment[node]
        return isinstance(value, Value) and isinstance(self._graph.producer(value), Parameter)

    def _note_state(self, other: Node, new: Value | Complex) -> None:
        """Record the overwriting of a buffer or of an input."""
        old = self._environment[other]
        if other.op != "placeholder" or not isinstance(old, Value):
            return
        producer = self._graph.producer(old)
        if isinstance(producer, Parameter):
            self._states[other] = producer.key
        if other in self._states:
            assert isinstance(new, Value), "a write of complex numbers into state is refused"
            self._graph.updates[self._states[other]] = new
        elif isinstance(producer, Input):
            note = (
                f"the model overwrites its input `{producer.name}`; the graph leaves the caller's array alone"
            )
            self.notes.append(note)


def written_argument(node: Node) -> Node | None:
    """Return the fx node whose elements an operator overwrites, or None."""
    schema = getattr(node.target, "_schema", None)
    if node.op != "call_function" or schema is None or not schema.is_mutable:
        return None
    if target_name(node.target) == RELEASE:
        return None
    for position, argument in enumerate(schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write and position < len(node.args):
            found = node.args[position]
            return found if hasattr(found, "meta") else None  # type: ignore[return-value]
    return None


def view_source(node: Node) -> Node | None:
    """Return the node that a view operator may view, or None where it cannot be one."""
    if node.op != "call_function" or not node.args or not hasattr(node.args[0], "meta"):
        return None
    schema = getattr(node.target, "_schema", None)
    if schema is None or schema.is_mutable:
        return None
    return node.args[0]  # type: ignore[return-value]


def storage_of(node: Node) -> int | None:
    """Return the storage of a node's tensor; None for no tensor, or a sparse one."""
    if MEMORY in node.meta:
        return node.meta[MEMORY]
    fake: Any = node.meta.get("val")
    if not hasattr(fake, "untyped_storage"):
        return None
    try:
        return fake.untyped_storage()._cdata
    except NotImplementedError:
        return None


def _are_parts(a: Node, b: Node) -> bool:
    """Whether two nodes are, or view, different results of one split, which share no element."""
    a, b = _part(a), _part(b)
    if a.target is not operator.getitem or b.target is not operator.getitem:
        return False
    return a.args[0] is b.args[0] and bool(a.args[1] != b.args[1])


def _part(node: Node) -> Node:
    """Return the result of a split that a node is a view of, or where its chain of views begins."""
    source = written_argument(node) or view_source(node)
    while source is not None and storage_of(source) == storage_of(node):
        node = source
        source = written_argument(node) or view_source(node)
    return node
