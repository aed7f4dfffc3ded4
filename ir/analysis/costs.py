"""Counts the multiplications that are added up in a run, by module: one with its addition is one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING

from ..builder import Builder, expand
from ..dims import at_sizes
from ..errors import RegraftError
from ..nodes import Operator
from ..signatures import DOMAIN
from ..types import TensorType

if TYPE_CHECKING:
    from ..graph import Graph

Shape = tuple[int, ...]


@dataclass(slots=True)
class Costs:
    """The costs of a run.

    Attributes:
        by_module: module key (None for operators of no module) -> multiply-adds of its own operators.
        uncounted: operators whose cost is not known: loops, branches, and unknown shapes.
        sizes: symbol -> size for which it was counted.
    """

    by_module: dict[int | None, int] = field(default_factory=dict[int | None, int])
    uncounted: list[str] = field(default_factory=list[str])
    sizes: dict[str, int] = field(default_factory=dict[str, int])

    @property
    def total(self) -> int:
        """The cost of the whole run."""
        return sum(self.by_module.values())


def count_costs(graph: Graph) -> Costs:
    """Return the multiply-adds of a graph at the sizes of its example inputs.

    Layers that ONNX has only as several operators are counted as those; additions of biases, elementwise
    operators and pools count nothing.
    """
    costs = Costs(sizes=example_sizes(graph))
    for part, node in _written_out(graph):
        if node.traits.control_flow:
            costs.uncounted.append(node.qualified_name)
            continue
        count = _COUNTS.get(node.qualified_name)
        if count is None:
            if node.traits.heavy or node.traits.recurrent:
                costs.uncounted.append(node.qualified_name)
            continue
        shapes = [
            None if v is None else _shape(part.type_of(v), costs.sizes) for v in part.operands(node.key)
        ]
        result = _shape(node.types[0], costs.sizes)
        try:
            found = count(node, [s or () for s in shapes[:3]], result or ())
        except (IndexError, KeyError, ValueError):
            found = None
        if found is None or result is None or any(s is None for s in shapes[:2]):
            costs.uncounted.append(node.qualified_name)
            continue
        module = None if node.call is None else part.modules.call(node.call).module
        costs.by_module[module] = costs.by_module.get(module, 0) + found
    return costs


def terms_of(graph: Graph, node: Operator, sizes: Mapping[str, int]) -> int:
    """Return how many products are added up for an element of a node's result; 0 where that is not known."""
    count = _COUNTS.get(node.qualified_name)
    result = _shape(node.types[0], sizes)
    shapes = [None if v is None else _shape(graph.type_of(v), sizes) for v in graph.operands(node.key)][:3]
    if count is None or not result or any(s is None for s in shapes[:2]):
        return 0
    try:
        return (count(node, [s or () for s in shapes], result) or 0) // max(prod(result), 1)
    except (IndexError, KeyError, ValueError):
        return 0


def example_sizes(graph: Graph) -> dict[str, int]:
    """Return symbol -> size in the example inputs."""
    found: dict[str, int] = {}
    for node in graph.input_nodes():
        example = graph.origin.inputs.get(node.name)
        for axis, dim in enumerate(node.type.shape or ()):
            if isinstance(dim, str) and example is not None and axis < example.ndim:
                found.setdefault(dim, int(example.shape[axis]))
    return found


def _written_out(graph: Graph) -> list[tuple[Graph, Operator]]:
    """Return the operators with their graph: heavy composites in a copy, as ONNX's operators."""
    if not any(_is_unknown(node) for node in graph.operators()):
        return [(graph, node) for node in graph.operators()]
    copy = graph.copy()
    failed: set[int] = set()
    while pending := [n for n in copy.operators() if _is_unknown(n) and n.key not in failed]:
        for node in pending:
            try:
                expand(Builder(copy), node.key)
            except RegraftError:  # of a form that has no expansion: it is named as not counted
                failed.add(node.key)
    return [(copy, node) for node in copy.operators()]


def _is_unknown(node: Operator) -> bool:
    heavy = node.traits.heavy or node.traits.recurrent
    return node.domain == DOMAIN and heavy and node.qualified_name not in _COUNTS


def _shape(type_: TensorType | None, sizes: Mapping[str, int]) -> Shape | None:
    """Return a shape in numbers; None where one is not known."""
    if type_ is None or type_.shape is None:
        return None
    dims = [at_sizes(dim, sizes) for dim in type_.shape]
    return (
        tuple(dim for dim in dims if isinstance(dim, int)) if all(isinstance(d, int) for d in dims) else None
    )


def _matmul(node: Operator, operands: Sequence[Shape], result: Shape) -> int:
    return prod(result) * operands[0][-1]


def _gemm(node: Operator, operands: Sequence[Shape], result: Shape) -> int:
    return prod(result) * operands[0][0 if node.int("transA") else 1]


def _by_weight(node: Operator, operands: Sequence[Shape], result: Shape) -> int:
    return prod(result) * prod(operands[1][1:])


def _conv_transpose(node: Operator, operands: Sequence[Shape], result: Shape) -> int:
    return prod(operands[0]) * prod(operands[1][1:])


def _recurrent(node: Operator, operands: Sequence[Shape], result: Shape) -> int:
    steps, batch = operands[0][:2]
    return steps * batch * (prod(operands[1]) + prod(operands[2]))


def _einsum(node: Operator, operands: Sequence[Shape], result: Shape) -> int | None:
    terms = node.str("equation").replace(" ", "").partition("->")[0].split(",")
    if any("." in term for term in terms) or len(terms) > 2:
        return None
    sizes = {
        letter: size
        for term, shape in zip(terms, operands, strict=False)
        for letter, size in zip(term, shape, strict=True)
    }
    return prod(sizes.values())


_COUNTS: dict[str, Callable[[Operator, Sequence[Shape], Shape], int | None]] = {
    "MatMul": _matmul,
    "Gemm": _gemm,
    "Conv": _by_weight,
    "regraft.Linear": _by_weight,
    "ConvTranspose": _conv_transpose,
    "LSTM": _recurrent,
    "GRU": _recurrent,
    "RNN": _recurrent,
    "Einsum": _einsum,
}
"""Operator -> multiply-adds of one run of it, from itself, the shapes of its operands, and of its result."""
