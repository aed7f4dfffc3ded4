"""In-place operators as single assignments: after a write, every alias stands for the new value."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...ir import Graph, Input, Parameter, UnsupportedError, Value

if TYPE_CHECKING:
    from torch.fx import Node


class Aliases:
    """Which fx nodes share memory, and what becomes of them when one is overwritten.

    Args:
        graph: the graph being built.
        environment: fx node -> value; changed by `mutated`.
        replay: lowers a view operator again.

    Attributes:
        notes: inputs that the model overwrites.
    """

    def __init__(self, graph: Graph, environment: dict[Node, Any], replay: Callable[[Node], Any]) -> None:
        self._graph, self._environment, self._replay = graph, environment, replay
        self._sets: dict[int, list[Node]] = {}
        self._states: dict[Node, int] = {}
        self.notes: list[str] = []

    def add(self, node: Node) -> None:
        """Note a node whose value has just been lowered."""
        storage = _storage(node)
        if storage is not None:
            self._sets.setdefault(storage, []).append(node)

    def mutated(self, node: Node, target: Node, place: str) -> None:
        """`node` has written its result into `target`: update everything that sees the same memory.

        Raises:
            UnsupportedError: when an alias that is read later cannot be expressed by the new value.
        """
        storage = _storage(target)
        if storage is None:
            return
        new = self._environment[node]
        members = self._sets[storage]
        fresh = {node}
        for other in members:
            if _same_view(other, target):
                self._note_state(other, new)
                self._environment[other] = new
                fresh.add(other)
        for other in members:  # in program order, so that a view of a view comes after it
            if other in fresh:
                continue
            source = _view_source(other)
            if source in fresh:
                self._environment[other] = self._replay(other)
                fresh.add(other)
            elif _read_after(other, node) or other.op == "placeholder":
                raise UnsupportedError(
                    "E203",
                    f"`{node.target}` writes into a view (`{target.name}`), and `{other.name}`, which shares its memory, is read later",
                    place=place,
                    hint="write the operation without changing a view in place",
                )

    def _note_state(self, other: Node, new: Value) -> None:
        """Record the overwriting of a buffer or of an input."""
        old = self._environment[other]
        if other.op != "placeholder" or not isinstance(old, Value):
            return
        producer = self._graph.producer(old)
        if isinstance(producer, Parameter):
            self._graph.updates[producer.key] = new
            self._states[other] = producer.key
        elif other in self._states:
            self._graph.updates[self._states[other]] = new
        elif isinstance(producer, Input):
            self.notes.append(
                f"the model overwrites its input `{producer.name}`; the graph leaves the caller's array alone"
            )


def _storage(node: Node) -> int | None:
    fake = node.meta.get("val")
    if not hasattr(fake, "untyped_storage"):
        return None
    return fake.untyped_storage()._cdata


def _same_view(a: Node, b: Node) -> bool:
    x, y = a.meta["val"], b.meta["val"]
    return (
        x.dtype == y.dtype
        and len(x.shape) == len(y.shape)
        and all(str(p) == str(q) for p, q in zip(x.shape, y.shape, strict=True))
        and all(str(p) == str(q) for p, q in zip(x.stride(), y.stride(), strict=True))
        and str(x.storage_offset()) == str(y.storage_offset())
    )


def _view_source(node: Node) -> Node | None:
    """The node that a view operator views, or None when it is not one."""
    if node.op != "call_function" or not node.args or not hasattr(node.args[0], "meta"):
        return None
    schema = getattr(node.target, "_schema", None)
    if schema is None or schema.is_mutable:
        return None
    return node.args[0]  # type: ignore[return-value]


def _read_after(node: Node, writer: Node) -> bool:
    """Whether anything that comes after `writer` reads `node`."""
    order = {n: i for i, n in enumerate(writer.graph.nodes)}
    return any(order.get(user, len(order)) > order[writer] for user in node.users)
