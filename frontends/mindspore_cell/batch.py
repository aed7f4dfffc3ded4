"""Making the batch symbolic: two compiles at two batch sizes, compared number by number."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...ir import TensorType
from ...ir.dims import Size
from .mindir import Function, Node, Program

BATCH = Size.of("N")
"""The size of the batch."""


@dataclass(frozen=True, slots=True)
class BatchFill:
    """A constant tensor of one repeated value whose shape has the batch in it."""

    value: np.ndarray
    shape: tuple[int | Size, ...]


class BatchDependenceError(Exception):
    """The model does something with the batch size that cannot be said with a symbol; the text says what."""


def generalise(first: Program, second: Program, sizes: tuple[int, int]) -> Program:
    """Return one program with N in place of every number that grows with the batch.

    Args:
        first: the model compiled at the first batch size.
        second: the model compiled at the second.
        sizes: the two batch sizes, different and both above 1.

    Raises:
        BatchDependenceError: when the two differ in anything but multiples of the batch size.
    """
    compare = _Comparison(sizes, _seeds(first))
    if not _same_operators(first, second) or len(first.functions) != len(second.functions):
        raise BatchDependenceError("the operators that run depend on the batch size")
    pairs = list(zip(first.functions, second.functions, strict=True))
    if not all(_same_operators(a, b) and len(a.inputs) == len(b.inputs) for a, b in pairs):
        raise BatchDependenceError("the operators that run depend on the batch size")
    names = {a.name: b.name for a, b in pairs} | _parameters(first, second)
    for a, b in [(first, second), *pairs]:
        names |= {p.name: q.name for p, q in zip(a.nodes, b.nodes, strict=True)}
        names |= {p: q for (p, _), (q, _) in zip(a.inputs, b.inputs, strict=True)}
    return replace(
        _generalised(first, second, compare, names),
        functions=tuple(_generalised(a, b, compare, names) for a, b in pairs),
    )


def _same_operators(first: Program | Function, second: Program | Function) -> bool:
    return [n.op for n in first.nodes] == [n.op for n in second.nodes]


def _generalised(first: Any, second: Any, compare: _Comparison, names: dict[str, str]) -> Any:
    """Return one graph or function with N in place of what grows with the batch."""
    if names.get(first.output, first.output) != second.output:
        raise BatchDependenceError("what is returned depends on the batch size")
    lists = _lists_of_effects(first)
    nodes = tuple(
        a if a.name in lists else compare.node(a, b, names)
        for a, b in zip(first.nodes, second.nodes, strict=True)
    )
    inputs = tuple(
        (name, compare.type(type_, other, name))
        for (name, type_), (_, other) in zip(first.inputs, second.inputs, strict=True)
    )
    return replace(first, nodes=nodes, inputs=inputs)


def _lists_of_effects(graph: Program | Function) -> set[str]:
    """Tuples of what ran before a state of memory, which compute nothing and are listed in any order."""
    read = {i for n in graph.nodes if n.op != "UpdateState" for i in n.inputs} | {graph.output}
    return {n.name for n in graph.nodes if n.op == "MakeTuple"} - read


def _parameters(first: Program, second: Program) -> dict[str, str]:
    other = {declared: name for name, declared in second.parameters.items()}
    return {name: other.get(declared, "") for name, declared in first.parameters.items()}


def _seeds(program: Program) -> set[str]:
    """Return constants that are only seeds of Dropout, which MindSpore draws anew for each compilation."""
    nodes = list(program.all_nodes())
    seeds = {i for n in nodes if n.op == "Dropout" for i in n.inputs[2:4]}
    others = {i for n in nodes for i in (n.inputs[:2] if n.op == "Dropout" else n.inputs)}
    return seeds - others - {program.output}


class _Comparison:
    def __init__(self, sizes: tuple[int, int], seeds: set[str]) -> None:
        self.sizes, self.seeds = sizes, seeds

    def node(self, a: Node, b: Node, names: dict[str, str]) -> Node:
        if tuple(names.get(i) for i in a.inputs) != b.inputs:
            raise BatchDependenceError(f"what `{a.op}` reads depends on the batch size")
        attributes = {k: self.value(v, b.attributes.get(k), a.op) for k, v in a.attributes.items()}
        value = a.value
        if a.op == "Constant" and a.name not in self.seeds:
            value = self.value(a.value, b.value, "a constant")
        return replace(a, attributes=attributes, type=self.type(a.type, b.type, a.op), value=value)

    def type(self, a: Any, b: Any, where: str) -> Any:
        if isinstance(a, TensorType) and isinstance(b, TensorType):
            if a == b:
                return a
            if a.dtype != b.dtype or a.shape is None or b.shape is None or len(a.shape) != len(b.shape):
                raise BatchDependenceError(f"the rank or element type of `{where}` depends on the batch size")
            dims = [self.number(p, q, where) for p, q in zip(a.shape, b.shape, strict=True)]
            return a.with_shape(tuple(d.dim if isinstance(d, Size) else d for d in dims))
        if isinstance(a, tuple) and isinstance(b, tuple):
            if len(a) != len(b):
                raise BatchDependenceError(f"the number of results of `{where}` depends on the batch size")
            return tuple(self.type(p, q, where) for p, q in zip(a, b, strict=True))
        return a

    def value(self, a: Any, b: Any, where: str) -> Any:
        if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
            return self.array(a, b, where)
        if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
            return tuple(self.value(p, q, where) for p, q in zip(a, b, strict=True))
        if type(a) is int and type(b) is int:
            return self.number(a, b, where)
        if a is b or (type(a) is type(b) and (a == b or a != a)):
            return a
        raise BatchDependenceError(
            f"{where} holds {a!r} at batch {self.sizes[0]} and {b!r} at {self.sizes[1]}"
        )

    def array(self, a: np.ndarray, b: np.ndarray, where: str) -> Any:
        if a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes():
            return a
        uniform = a.ndim == b.ndim and a.size and b.size and a.dtype == b.dtype
        if uniform and (a == a.flat[0]).all() and (b == a.flat[0]).all():
            shape = tuple(self.number(p, q, where) for p, q in zip(a.shape, b.shape, strict=True))
            return BatchFill(a.reshape(-1)[0].copy().reshape(()), shape)
        if a.shape == b.shape and a.dtype.kind == "i" and a.ndim <= 1:
            pairs = zip(a.reshape(-1), b.reshape(-1), strict=True)
            found = tuple(self.number(int(p), int(q), where) for p, q in pairs)
            return found if a.ndim else found[0]
        raise BatchDependenceError(f"the values of a {list(a.shape)} constant depend on the batch size")

    def number(self, a: Any, b: Any, where: str) -> Any:
        if a == b:
            return a
        if a and b and a * self.sizes[1] == b * self.sizes[0] and a % self.sizes[0] == 0:
            return BATCH * (a // self.sizes[0])
        raise BatchDependenceError(f"`{where}` has {a} at batch {self.sizes[0]} and {b} at {self.sizes[1]}")
