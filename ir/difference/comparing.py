"""Compares two graphs whose parts are paired."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from ..graph import Graph
from ..nodes import Constant, Input, Node, Operator, Parameter, Value
from ..tensors import TensorData
from .pairing import Pairs
from .result import Facet, GraphDifference, Mark, ModuleRow, OperatorRow, PortRow, TensorRow
from .sides import Side, Step, attributes_of, constant_text

CompareValues = Callable[[TensorData, TensorData], "tuple[float, float] | None"]
"""Returns the largest difference of two tensors, and the largest relative one; None for equal ones."""


def compare_graphs(
    first: Graph, second: Graph, compare_values: CompareValues, *, names: bool = True, flat: bool = False
) -> GraphDifference:
    """Return what differs between two graphs.

    Args:
        first: a graph.
        second: another.
        compare_values: compares the values of two parameters.
        names: whether modules differ whose classes have other names, and parameters with other names.
        flat: whether to compare the operators of the whole, whatever module they are of.
    """
    pairs = Pairs(first, second, flat=flat)
    compared = _Comparing(pairs, compare_values, names)
    root = compared.row(0, 0)
    for one, two in pairs.modules.items():
        if two != 0 and one not in compared.done:
            root.children.append(compared.row(one, two))
    references = first.origin.reference or first.name, second.origin.reference or second.name
    return GraphDifference(
        references,
        root,
        _ports(pairs),
        compared=(len(pairs.modules), len(pairs.operators), len(pairs.parameters)),
    )


class _Comparing:
    """Makes the rows of modules."""

    def __init__(self, pairs: Pairs, compare_values: CompareValues, names: bool) -> None:
        self.pairs, self.compare_values, self.names = pairs, compare_values, names
        self.back = {two: one for one, two in pairs.modules.items()}
        self.paths = [_parameter_names(side) for side in pairs.sides]
        self.holders = {p: m for m, held in pairs.sides[1].held.items() for p in held.values()}
        self.done: set[int] = set()

    def row(self, one: int, two: int) -> ModuleRow:
        """Return the row of two modules that are paired, with those below them."""
        first, second = self.pairs.sides
        self.done.add(one)
        mine, other = first.modules[one], second.modules[two]
        row = ModuleRow("=", first.path(one), second.path(two), mine.class_name, mine.class_name)
        if self.names and (one != 0 or all(_has_class(side.graph) for side in self.pairs.sides)):
            row.other_class = other.class_name
        row.operators = self._operators(one, two)
        row.tensors = self._tensors(one, two)
        gone = [m for m in first.children[one].values() if m not in self.pairs.modules]
        before = {m: i for i, m in enumerate(first.children[one].values())}
        for child in second.children[two].values():
            partner = self.back.get(child)
            while gone and partner in before and before[gone[0]] < before[partner]:
                row.children.append(self.alone("-", first, gone.pop(0)))
            row.children.append(
                self.alone("+", second, child) if partner is None else self.row(partner, child)
            )
        row.children += [self.alone("-", first, m) for m in gone]
        renamed = row.class_name != row.other_class
        below = any(child.mark != "=" or (child.moved and not row.leads(child)) for child in row.children)
        if renamed or row.operators or row.tensors or below:
            row.mark = "~"
        row.counts = _counts(second, two)
        return row

    def alone(self, mark: Mark, side: Side, module: int) -> ModuleRow:
        """Return the row of a module that one side has, with what is below it and has no partner."""
        path, name = side.path(module), side.modules[module].class_name
        row = ModuleRow(mark, path, path, name, name, counts=_counts(side, module))
        for child in side.children[module].values():
            if mark == "+" and child in self.back:
                row.children.append(self.row(self.back[child], child))
        return row

    def _operators(self, one: int, two: int) -> list[OperatorRow]:
        rows: list[OperatorRow] = []
        for mine, other in self.pairs.steps[one, two]:
            if mine is None or other is None:
                step = mine or other
                assert step is not None
                places = (step.node.location, "") if other is None else ("", step.node.location)
                rows.append(OperatorRow("-" if other is None else "+", step.node.qualified_name, (), places))
            elif facets := [*_attributes(mine.node, other.node), *self._operands(mine, other)]:
                places = mine.node.location, other.node.location
                rows.append(OperatorRow("~", other.node.qualified_name, tuple(facets), places))
        return rows

    def _operands(self, mine: Step, other: Step) -> list[Facet]:
        """Return the operands of two operators that are not one value, though both sides have both."""
        first, second = (side.operands(s) for side, s in zip(self.pairs.sides, (mine, other), strict=True))
        facets: list[Facet] = []
        for slot in range(max(len(first), len(second))):
            x = first[slot] if slot < len(first) else None
            y = second[slot] if slot < len(second) else None
            if x is None and y is None:
                continue
            name = _slot_name(other.node, slot)
            if x is not None and y is not None:
                if isinstance(x[2], Constant) and isinstance(y[2], Constant):
                    before, after = constant_text(x[2]), constant_text(y[2])
                    if before != after or x[2].data.type != y[2].data.type:
                        facets.append(Facet(name, before, after))
                    continue
                if self.pairs.are_one(x, y) is not False:
                    continue
            facets.append(Facet(name, self._source(0, x), self._source(1, y)))
        return facets

    def _source(self, side: int, found: tuple[Graph, Value, Node] | None) -> str:
        """Describe where an operand comes from."""
        if found is None:
            return "none"
        part, _, node = found
        if isinstance(node, Constant):
            return constant_text(node)
        if isinstance(node, Parameter):
            return f"`{self.paths[side].get(node.key, node.name)}`"
        if isinstance(node, Input):
            return f"input `{node.name}`"
        assert isinstance(node, Operator)
        tree, call = part.modules, node.call
        path = tree.path(tree.call(call).module) if call is not None and tree.has_call(call) else ""
        where = f" of `{path}`" if path else f" at {node.location}" if node.location else ""
        return f"{node.op_type}{where}"

    def _tensors(self, one: int, two: int) -> list[TensorRow]:
        first, second = self.pairs.sides
        rows: list[TensorRow] = []
        taken = {self.pairs.parameters.get(p) for p in first.held[one].values()}
        for key in first.held[one].values():
            parameter, name = first.graph.parameter(key), self.paths[0][key]
            partner = self.pairs.parameters.get(key)
            if partner is None:
                rows.append(TensorRow("-", name, name, elements=_size(parameter)))
            elif row := self._tensor(parameter, second.graph.parameter(partner), one):
                rows.append(row)
        backwards = set(self.pairs.parameters.values())
        for key in second.held[two].values():
            if key not in taken and key not in backwards:
                name = self.paths[1][key]
                rows.append(TensorRow("+", name, name, elements=_size(second.graph.parameter(key))))
        return rows

    def _tensor(self, mine: Parameter, other: Parameter, module: int) -> TensorRow | None:
        """Return the row of two parameters; None where they are equal and stand in paired places."""
        names = self.paths[0][mine.key], self.paths[1][other.key]
        facets: list[Facet] = []
        if mine.type != other.type:
            facets.append(Facet("type", str(mine.type), str(other.type)))
        trained = [p.trainable and not p.is_buffer for p in (mine, other)]
        if trained[0] != trained[1]:
            facets.append(Facet("trained", _yes(trained[0]), _yes(trained[1])))
        laws = mine.initializer, other.initializer
        if laws[0] != laws[1] and all(law is not None and law.law != "unknown" for law in laws):
            facets.append(Facet("initial distribution", str(laws[0]), str(laws[1])))
        values = None
        if mine.type == other.type and mine.data.load is not None and other.data.load is not None:
            values = self.compare_values(mine.data, other.data)
        local = names[0].rpartition(".")[2] != names[1].rpartition(".")[2]
        elsewhere = self.pairs.modules.get(module) != self.holders.get(other.key)
        if not facets and values is None and not (self.names and (local or elsewhere)):
            return None
        return TensorRow("~", names[0], names[1], tuple(facets), values, _size(other))


def _has_class(graph: Graph) -> bool:
    """Whether the whole is an instance of a class, and has no name after its file."""
    return not isinstance(graph.origin.model, (str, Path))


def _attributes(mine: Operator, other: Operator) -> list[Facet]:
    first, second = attributes_of(mine), attributes_of(other)
    names = sorted({*first, *second})
    return [
        Facet(name, first.get(name, "none"), second.get(name, "none"))
        for name in names
        if first.get(name) != second.get(name) and not (mine.is_usual(name) and other.is_usual(name))
    ]


def _slot_name(node: Operator, slot: int) -> str:
    """Return the name of an operand, as the operator's signature has it."""
    formals = node.signature.inputs
    if slot < len(formals) and not formals[slot].variadic:
        return f"operand {formals[slot].name}"
    return f"operand {slot}"


def _parameter_names(side: Side) -> dict[int, str]:
    paths = side.graph.parameter_paths()
    return {p.key: next(iter(paths.get(p.key, [])), p.name) for p in side.graph.parameters()}


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _size(parameter: Parameter) -> int:
    return int(np.prod(parameter.data.shape, dtype=np.int64))


def _counts(side: Side, module: int) -> tuple[int, int, int]:
    """Return the operators, parameters and elements of a module and all below it."""
    operators = tensors = elements = 0
    stack = [module]
    while stack:
        at = stack.pop()
        operators += len(side.steps.get(at, ()))
        tensors += len(side.held[at])
        elements += sum(_size(side.graph.parameter(p)) for p in side.held[at].values())
        stack += side.children[at].values()
    return operators, tensors, elements


def _ports(pairs: Pairs) -> list[PortRow]:
    """Return the inputs and outputs that differ; by name, else by place."""
    first, second = (side.graph for side in pairs.sides)
    rows: list[PortRow] = []
    inputs = [[(n.name, str(n.type)) for n in graph.input_nodes()] for graph in (first, second)]
    outputs = [[(name, str(graph.type_of(v))) for name, v in graph.outputs] for graph in (first, second)]
    rows += _ports_of("input", *inputs)
    rows += _ports_of("output", *outputs)
    return rows


def _ports_of(
    kind: Literal["input", "output"], mine: Sequence[tuple[str, str]], other: Sequence[tuple[str, str]]
) -> list[PortRow]:
    names = [[name for name, _ in side] for side in (mine, other)]
    if len(set(names[0]) & set(names[1])) == 0 and len(mine) == len(other):
        pairs = list(enumerate(range(len(other))))
    else:
        pairs = [(i, names[1].index(name)) for i, name in enumerate(names[0]) if name in names[1]]
    rows: list[PortRow] = []
    for i, j in pairs:
        facets = [
            Facet(what, before, after)
            for what, before, after in (
                ("name", mine[i][0], other[j][0]),
                ("type", mine[i][1], other[j][1]),
                ("place", str(i), str(j)),
            )
            if before != after
        ]
        if facets:
            rows.append(PortRow(kind, "~", mine[i][0], tuple(facets)))
    paired = {i for i, _ in pairs}, {j for _, j in pairs}
    rows += [PortRow(kind, "-", name) for i, (name, _) in enumerate(mine) if i not in paired[0]]
    rows += [PortRow(kind, "+", name) for j, (name, _) in enumerate(other) if j not in paired[1]]
    return rows
