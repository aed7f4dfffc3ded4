"""measure-sizes: calls of one module at several sizes take these from their tensors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import networkx as nx
import numpy as np

from ....ir import Array, Builder, Constant, Graph, Operator, Value
from ....passes.base import Change, Pass
from ..regions import is_region

_SLOTS = {"Reshape": (1,), "Expand": (1,), "Slice": (1, 2)}
"""Operator -> operands that are lists of sizes."""

Size = tuple[int, int, int]
"""Operator of a call, by position; its operand; an axis of that."""


@dataclass(frozen=True)
class MeasureSizes(Pass):
    """Write ``x.shape[1]`` for a number that is that size in every call of a module.

    What it does:
        Finds calls of one module that differ in constant sizes only, and replaces each number that differs by
        the size of a tensor at hand that is this number in every call; the one number of a Reshape that no
        size is, by -1.

    Why:
        A layer that is used on 5 and on 9 tokens is one class with one `construct`, as it was written.

    Leaves alone:
        Calls that differ in more, and numbers that are equal in all calls.

    Refuses:
        Nothing.

    Example:
        >>> from regraft.ir import parse
        >>> graph = parse('''
        ... graph main {
        ...   module "" Net
        ...   module "heads" Heads called from ["#1", "#1"]
        ...   %x = input "x" : f32[N,5,8]
        ...   %y = input "y" : f32[N,9,8]
        ...   %0 = const [-1, 5, 2, 4] : i64[4]
        ...   %1 = Reshape(%x, %0) : f32[N,5,2,4] @ "heads#1"
        ...   %2 = const [-1, 9, 2, 4] : i64[4]
        ...   %3 = Reshape(%y, %2) : f32[N,9,2,4] @ "heads#2"
        ...   return "a" = %1
        ...   return "b" = %3
        ... }''')
        >>> for change in MeasureSizes().run(graph):
        ...     print(change)
        MS129 sizes that differ in 2 calls are those of tensors - at heads
    """

    name: ClassVar[str] = "measure-sizes"
    codes: ClassVar[dict[str, str]] = {"MS129": "sizes that differ between calls of a module are measured"}

    def run(self, graph: Graph) -> list[Change]:
        """Measure; see the class."""
        tree = graph.modules
        own: dict[int | None, list[Operator]] = {}
        for key in graph.order():
            node = graph.node(key)
            if isinstance(node, Operator):
                own.setdefault(node.call, []).append(node)
        changes: list[Change] = []
        for module, calls in tree.calls_by_module().items():
            if len(calls) < 2 or is_region(tree, module):
                continue
            bodies = [own.get(call.key, []) for call in calls]
            if _measure(graph, bodies):
                text = f"sizes that differ in {len(calls)} calls are those of tensors"
                changes.append(Change("MS129", text, tree.path(module)))
        if changes:
            graph.remove_dead()
        return changes


def _measure(graph: Graph, bodies: list[list[Operator]]) -> bool:
    """Replace the sizes that differ between the calls of one module; False where nothing does or may."""
    if any([n.qualified_name for n in body] != [n.qualified_name for n in bodies[0]] for body in bodies):
        return False
    found: list[tuple[int, int, list[Size | int]]] = []
    for at, slot in _differing(graph, bodies):
        numbers = [_numbers(graph, body[at], slot) for body in bodies]
        first = numbers[0]
        if first is None or any(n is None or n.shape != first.shape for n in numbers):
            return False
        columns = [[int(n[i]) for n in numbers if n is not None] for i in range(len(first))]
        sizes = [_express(graph, bodies, at, column) for column in columns]
        if bodies[0][at].op_type == "Reshape" and not bodies[0][at].int("allowzero"):
            sizes = [0 if size == (at, 0, i) else size for i, size in enumerate(sizes)]
        unknown = [i for i, size in enumerate(sizes) if size is None]
        if len(unknown) == 1 and bodies[0][at].op_type == "Reshape" and all(-1 not in c for c in columns):
            sizes[unknown[0]] = -1
        elif unknown:
            return False
        known = [size for size in sizes if size is not None]
        if bodies[0][at].op_type == "Reshape" and not bodies[0][at].int("allowzero"):
            known = _without_zeros(at, known)
        found.append((at, slot, known))
    for at, slot, sizes in found:
        for body in bodies:
            _write(graph, body, at, slot, sizes)
    return bool(found)


def _without_zeros(at: int, sizes: list[Size | int]) -> list[Size | int]:
    """Write a Reshape's 0, which only a constant has, as -1, or as the size that it keeps."""
    if all(isinstance(size, int) for size in sizes):
        return sizes
    kept: list[Size | int] = [(at, 0, i) if size == 0 else size for i, size in enumerate(sizes)]
    if 0 in sizes and -1 not in sizes:
        kept[sizes.index(0)] = -1
    return kept


def _differing(graph: Graph, bodies: list[list[Operator]]) -> Iterator[tuple[int, int]]:
    """Yield (operator, operand), by position, of the lists of sizes that differ between calls."""
    for at, node in enumerate(bodies[0]):
        for slot in _SLOTS.get(node.qualified_name, ()):
            rows = [_numbers(graph, body[at], slot) for body in bodies]
            first = rows[0]
            if first is not None and any(row is None or not np.array_equal(row, first) for row in rows):
                yield at, slot


def _numbers(graph: Graph, node: Operator, slot: int) -> Array | None:
    """Return a constant list of sizes; None for anything else."""
    operands = graph.operands(node.key)
    value = operands[slot] if slot < len(operands) else None
    if value is None or not isinstance(graph.node(value.node), Constant):
        return None
    found = graph.constant_value(value)
    return found if found is not None and found.ndim == 1 else None


def _express(graph: Graph, bodies: list[list[Operator]], at: int, column: list[int]) -> Size | int | None:
    """Return the number that all calls share, or the size that it is in each of them; None without."""
    if len(set(column)) == 1:
        return column[0]
    for earlier in (*range(at, -1, -1), *range(at + 1, len(bodies[0]))):  # what it reads itself comes first
        for slot, value in enumerate(graph.operands(bodies[0][earlier].key)):
            if earlier > at and not _is_at_hand(graph, bodies, at, (earlier, slot)):
                continue
            known = None if value is None else graph.type_of(value)
            for axis in range(len(known.shape or ()) if known is not None else 0):
                if [_size(graph, body[earlier], slot, axis) for body in bodies] == column:
                    return earlier, slot, axis
    return None


def _is_at_hand(graph: Graph, bodies: list[list[Operator]], at: int, operand: tuple[int, int]) -> bool:
    """Whether an operand of a later operator does not depend on the operator, in any call."""
    later, slot = operand
    for body in bodies:
        value = graph.operands(body[later].key)[slot]
        if value is None or nx.has_path(graph.flow, body[at].key, value.node):
            return False
    return True


def _size(graph: Graph, node: Operator, slot: int, axis: int) -> int | None:
    """Return a size of an operand; None where it is not a number."""
    operands = graph.operands(node.key)
    value = operands[slot] if slot < len(operands) else None
    known = None if value is None else graph.type_of(value)
    if known is None or known.shape is None or axis >= len(known.shape):
        return None
    size = known.shape[axis]
    return size if isinstance(size, int) else None


def _write(graph: Graph, body: list[Operator], at: int, slot: int, sizes: list[Size | int]) -> None:
    """Make a list of numbers and of measured sizes an operand."""
    b = Builder(graph)
    if all(isinstance(size, int) for size in sizes):
        graph.set_operand(body[at].key, slot, b.constant(sizes))
        return
    parts: list[Value] = []
    with b.inside(body[at].call, body[at].location):
        for size in sizes:
            if isinstance(size, int):
                parts.append(b.constant([size]))
                continue
            earlier, operand, axis = size
            value = graph.operands(body[earlier].key)[operand]
            assert value is not None
            parts.append(b.op("Shape", value, start=axis, end=axis + 1))
        new = parts[0] if len(parts) == 1 else b.op("Concat", *parts, axis=0)
    graph.set_operand(body[at].key, slot, new)
