"""Divides the nodes of a model into the regions of its module calls, each inside the region of its parent."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import networkx as nx
import onnx

from ....ir.outside.onnx_functions import NODE_CALL, metadata


@dataclass(frozen=True, slots=True)
class Calls:
    """The module calls of a graph by their names.

    Attributes:
        parents: call -> the call that it is made in; the root's own has none.
        classes: call -> class of its module.
        records: call -> name and content of what the metadata state of the values at its edges.
    """

    parents: Mapping[str, str | None]
    classes: Mapping[str, str]
    records: Mapping[str, tuple[str, dict[str, Any]]]


@dataclass(eq=False, slots=True)
class Leaf:
    """One node.

    Attributes:
        number: its place in the model.
        node: the node.
        call: the name of the module call it is in.
        reads: names of the values that it reads, each once; those that its nested graphs use included.
    """

    number: int
    node: onnx.NodeProto
    call: str
    reads: tuple[str, ...]

    @property
    def gives(self) -> Iterator[str]:
        """Its outputs."""
        return (name for name in self.node.output if name)

    @property
    def leaves(self) -> Iterator[Leaf]:
        """Itself."""
        yield self


@dataclass(eq=False, slots=True)
class Region:
    """The nodes of one module call.

    Attributes:
        call: its name.
        number: place of its first node in the model.
        items: nodes and the regions of calls inside, in an order in which each follows what it reads.
        reads: names of the values that enter, by first use.
        gives: names of the values that it computes.
    """

    call: str
    number: int
    items: list[Leaf | Region]
    reads: tuple[str, ...] = ()
    gives: tuple[str, ...] = ()

    @property
    def leaves(self) -> Iterator[Leaf]:
        """Yield every node in it."""
        stack: list[Leaf | Region] = [self]
        while stack:
            item = stack.pop()
            if isinstance(item, Leaf):
                yield item
            else:
                stack += reversed(item.items)


@dataclass(eq=False, slots=True)
class _Open:
    call: str
    parts: list[Leaf | _Open] = field(default_factory=list["Leaf | _Open"])
    inner: dict[str, _Open] = field(default_factory=dict[str, "_Open"])


def find_regions(nodes: Sequence[onnx.NodeProto], calls: Calls) -> Region:
    """Return the region of the root, with those of the calls in it.

    A call is no region where something that it computes leaves it and comes back: its nodes then belong to
    the call around it.

    Args:
        nodes: of the main graph, in order.
        calls: the module calls.
    """
    root = _Open("")
    for number, node in enumerate(nodes):
        call = metadata(node.metadata_props, NODE_CALL) or ""
        at = root
        for name in _chain(call, calls.parents):
            if name not in at.inner:
                at.inner[name] = _Open(name)
                at.parts.append(at.inner[name])
            at = at.inner[name]
        at.parts.append(Leaf(number, node, call, tuple(dict.fromkeys(values_read(node)))))
    return _closed(root)


def values_read(node: onnx.NodeProto) -> Iterator[str]:
    """Yield the names of the values that a node and its nested graphs read from around it."""
    yield from (name for name in node.input if name)
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            body = attribute.g
            own = {v.name for v in (*body.input, *body.initializer)}
            own |= {name for each in body.node for name in each.output}
            for each in body.node:
                yield from (name for name in values_read(each) if name not in own)
            yield from (v.name for v in body.output if v.name not in own)


def _chain(call: str, parents: Mapping[str, str | None]) -> list[str]:
    """Return a call and those around it, the outermost first; without the root's own."""
    found: list[str] = []
    at: str | None = call
    while at is not None and parents.get(at) is not None:
        found.append(at)
        at = parents[at]
    return found[::-1]


def _closed(opened: _Open) -> Region:
    """Order the parts of a call, those inside first; without recursion, as models nest deep."""
    done: dict[_Open, Region] = {}
    stack: list[tuple[_Open, bool]] = [(opened, False)]
    while stack:
        at, ready = stack.pop()
        if not ready:
            stack.append((at, True))
            stack += [(part, False) for part in at.inner.values()]
            continue
        items = [done.pop(part) if isinstance(part, _Open) else part for part in at.parts]
        done[at] = _ordered(at.call, items)
    return done[opened]


def _ordered(call: str, items: list[Leaf | Region]) -> Region:
    """Return the region of some items, those dissolved that depend on themselves."""
    while True:
        producer = {name: item for item in items for name in item.gives}
        after: dict[Leaf | Region, set[Leaf | Region]] = {item: set() for item in items}
        waits = dict.fromkeys(items, 0)
        for item in items:
            for before in {producer[name] for name in item.reads if name in producer}:
                if before is not item:
                    after[before].add(item)
                    waits[item] += 1
        ready = [(item.number, item) for item in items if not waits[item]]
        heapq.heapify(ready)
        order: list[Leaf | Region] = []
        while ready:
            _, item = heapq.heappop(ready)
            order.append(item)
            for other in after[item]:
                waits[other] -= 1
                if not waits[other]:
                    heapq.heappush(ready, (other.number, other))
        if len(order) == len(items):
            return _region(call, order)
        items = _dissolved(items, after, set(items) - set(order))


def _region(call: str, items: list[Leaf | Region]) -> Region:
    gives = tuple(name for item in items for name in item.gives)
    own = set(gives)
    reads = dict.fromkeys(name for item in items for name in item.reads if name not in own)
    return Region(call, min((item.number for item in items), default=0), items, tuple(reads), gives)


def _dissolved(
    items: Iterable[Leaf | Region],
    after: Mapping[Leaf | Region, Collection[Leaf | Region]],
    left: Collection[Leaf | Region],
) -> list[Leaf | Region]:
    """Return items with the parts of each region that lies on a cycle in its place."""
    graph: Any = nx.DiGraph()
    graph.add_edges_from((a, b) for a in left for b in after[a] if b in left)
    cyclic = {x for part in nx.strongly_connected_components(graph) if len(part) > 1 for x in part}
    found: list[Leaf | Region] = []
    for item in items:
        found += item.items if isinstance(item, Region) and item in cyclic else [item]
    return found
