"""Faults in the graph before anything is written from it: what a wrong pass or lowering would leave."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from ...ir import Constant, Graph, Node, Operator, TensorData, TensorType, Value
from .mutants import Mutant, NotApplicableError
from .operators import Edit, edits
from .values import exchanges, weight_faults


def graph_mutants(graph: Graph) -> Iterator[Mutant]:
    """Every fault that can be planted in a rewritten graph."""
    for number, part in enumerate(graph.subgraphs()):
        keys = [k for k in part.order() if isinstance(part.node(k), Operator)]
        for at, key in enumerate(keys):
            node = part.operator(key)
            if node.traits.dropout:  # what runs the graph infers only
                continue
            place = f"{number}.{at} {node.qualified_name}"
            yield from _operator(graph, part, number, key, place)
    yield from _values(graph)


def _mutant(
    graph: Graph, kind: str, place: str, change: Callable[[Graph], None], *, train: bool = False
) -> Mutant:
    def build(_: Path) -> Graph:
        new = graph.copy()
        change(new)
        return new

    return Mutant(kind, place, build, train)


def _part(graph: Graph, number: int) -> Graph:
    return list(graph.subgraphs())[number]


def _operator(graph: Graph, part: Graph, number: int, key: int, place: str) -> Iterator[Mutant]:
    node = part.operator(key)
    operands = part.operands(key)
    first = None if not operands or operands[0] is None else part.type_of(operands[0])
    given = {n: v for n, v in node.attributes.items() if not isinstance(v, (Graph, np.ndarray))}
    rank = None if first is None else first.rank
    for edit in edits(node.op_type, given, [o is not None for o in operands], rank, node.domain):
        apply = lambda g, e=edit: _apply(_part(g, number), key, e, first)  # noqa: E731
        yield _mutant(graph, edit.kind, f"{place}: {edit.what}", apply)
    if {"then_branch", "else_branch"} <= set(node.attributes):
        yield _mutant(graph, "branches swapped", place, lambda g: _swap_branches(_part(g, number), key))
    own = node.types[0] if node.types else None
    for slot, operand in enumerate(operands):
        if operand is not None and own is not None and part.type_of(operand) == own and own.rank:
            if isinstance(part.node(operand.node), (Constant,)):
                continue
            drop = lambda g, o=operand: _part(g, number).replace_uses(Value(key), o)  # noqa: E731
            yield _mutant(graph, "node dropped", f"{place} for operand {slot}", drop)
    order = part.order()
    earlier = order[: order.index(key)]
    for slot, operand in enumerate(operands):
        if (
            operand is None
            or isinstance(part.node(operand.node), Constant)
            or operand.node in _parameters(part)
        ):
            continue
        fitting = [
            Value(k)
            for k in earlier
            if k != operand.node and k not in _parameters(part) and part.node(k).types
            if part.node(k).types[0] == part.type_of(operand)
        ]
        producer = part.node(operand.node)
        passed_on = part.operands(operand.node)[:1] if _trains(producer) else []
        for other in [o for o in fitting[-2:] if o not in passed_on]:
            put = lambda g, s=slot, o=other: _part(g, number).set_operand(key, s, o)  # noqa: E731
            what = f"{place} operand {slot}: {order.index(operand.node)} -> {order.index(other.node)}"
            yield _mutant(graph, "edge to another value", what, put)


def _parameters(part: Graph) -> set[int]:
    return {p.key for p in part.parameters()}


def _apply(part: Graph, key: int, edit: Edit, first: TensorType | None) -> None:
    node = part.operator(key)
    node.attributes = {**node.attributes, **edit.attributes}
    node.attributes = {n: v for n, v in node.attributes.items() if v is not None}
    operands = part.operands(key)
    if edit.order is not None:
        operands = [None if i < 0 else operands[i] for i in edit.order] + [None] * (
            len(operands) - len(edit.order)
        )
    for scalar in edit.scalars:
        dtype = "float32" if first is None else first.dtype
        operands.append(part.add_constant(np.array(scalar, dtype)))
    for slot, operand in enumerate(operands):
        part.set_operand(key, slot, operand)
    if edit.op_type:
        node.op_type = edit.op_type


def _swap_branches(part: Graph, key: int) -> None:
    node = part.operator(key)
    attributes = dict(node.attributes)
    one, other = attributes["then_branch"], attributes["else_branch"]
    assert isinstance(one, Graph)
    assert isinstance(other, Graph)
    if len(one.captures) != len(other.captures):
        raise NotApplicableError
    node.attributes = {**attributes, "then_branch": other, "else_branch": one}


def _values(graph: Graph) -> Iterator[Mutant]:
    named = {f"{at} {p.name}": p for at, p in enumerate(graph.parameters())}
    arrays = {name: p.data.numpy() for name, p in named.items()}

    def put(values: dict[str, np.ndarray]) -> Callable[[Graph], None]:
        def change(new: Graph) -> None:
            for name, array in values.items():
                new.parameter(named[name].key).data = TensorData.of(np.ascontiguousarray(array))

        return change

    for name, array in arrays.items():
        for kind, change in weight_faults(name, array):
            yield _mutant(graph, kind, name, put({name: change(array)}))
    for kind, a, b in exchanges(arrays):
        yield _mutant(graph, kind, f"{a}, {b}", put({a: arrays[b], b: arrays[a]}))
    for number, part in enumerate(graph.subgraphs()):
        constants = [
            k
            for k in part.order()
            if isinstance(part.node(k), Constant)
            and not all(_trains(part.node(user)) for user, _ in part.users(Value(k)))
        ]
        for at, key in enumerate(constants):
            node = part.node(key)
            assert isinstance(node, Constant)
            array = node.data.numpy()
            if not array.size:
                continue
            changed = _other(array)
            if changed is not None:
                kind, new = changed
                yield _mutant(
                    graph,
                    kind,
                    f"{number}.{at} constant",
                    lambda g, n=number, k=key, new=new: setattr(
                        _part(g, n).node(k), "data", TensorData.of(new)
                    ),
                )


def _trains(node: Node) -> bool:
    return isinstance(node, Operator) and bool(node.traits.dropout)


def _other(array: np.ndarray) -> tuple[str, np.ndarray] | None:
    if array.dtype.kind in "iu":
        new = array.copy()
        new.flat[0] += 1
        return "integer constant + 1", new
    if array.dtype.kind == "f" and np.any(array) and np.isfinite(array).all():
        return "float constant changed", np.asarray(array * array.dtype.type(1.001))
    return None
