"""States what a target's rounded constants are: folded normalisations, or expressions of the source's."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from ...ir import Array, Constant, Graph, Operator, Parameter, TensorData, Value, walk_operators
from ...ir.analysis.evaluation import evaluate_all
from ...ir.folding import Fold
from .small_form import write_operator
from .tensor_table import TensorTable

_ROUNDED = 0.501
"""Units in the last place by which the rounding of an exact value differs from it, and a little more."""

_MOST_UNITS = 64
_MOST_COMPUTED = 1 << 26
"""Elements of the largest constant that is computed to be looked for."""


@dataclass
class Definitions:
    """The expressions of a certificate, in its small form.

    Attributes:
        constants: value -> tensor that it is.
        nodes: the operators.
        rows: which tensor is the rounding of which value, and within how many units.
    """

    tensors: TensorTable
    constants: dict[str, str] = field(default_factory=dict)
    nodes: list[dict[str, Any]] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)

    def leaf(self, data: TensorData) -> str:
        """Return the value of a tensor."""
        name = self.tensors.add(data)
        value = f"c{name}"
        self.constants[value] = name
        return value

    def number(self, value: float, shape: tuple[int, ...] = ()) -> str:
        """Return the value of a float32."""
        return self.leaf(TensorData.of(np.full(shape, value, np.float32)))

    def sizes(self, *numbers: int) -> str:
        """Return the value of a list of whole numbers."""
        return self.leaf(TensorData.of(np.array(numbers, np.int64)))

    def op(self, name: str, *operands: str) -> str:
        """Add an operator; returns its value."""
        value = f"d{len(self.nodes)}"
        self.nodes.append({"op": name, "in": list(operands), "out": [value]})
        return value

    def exact(self, whole: Array) -> str:
        """Return the value of a whole number as a float64."""
        return self.leaf(TensorData.of(whole.astype(np.float64)))

    def root(self, whole: int) -> str:
        """Return the root of a whole number."""
        return self.op("Sqrt", self.exact(np.array(whole)))

    def define(self, tensor: str, value: str, units: float) -> None:
        """State that a tensor is the rounding of a value."""
        self.rows.append({"tensor": tensor, "value": value, "units": units})

    def document(self) -> dict[str, Any]:
        """Return the part of the certificate."""
        return {"constants": self.constants, "nodes": self.nodes, "of": self.rows}


@dataclass(frozen=True)
class Candidate:
    """A value that a constant of the target may be the rounding of.

    Attributes:
        shape: its shape.
        compute: returns it in float64.
        state: adds its expression, and returns the value.
    """

    shape: tuple[int, ...]
    compute: Callable[[], Array]
    state: Callable[[Definitions], str]


def define_constants(
    definitions: Definitions, tensors: Iterable[str], candidates: Iterable[Candidate]
) -> None:
    """Find for each tensor the candidate that it is the rounding of, and state that."""
    by_shape: dict[tuple[int, ...], list[Candidate]] = {}
    for candidate in candidates:
        by_shape.setdefault(candidate.shape, []).append(candidate)
    computed: dict[int, Array] = {}
    for name in tensors:
        data = definitions.tensors.data[name]
        if not data.dtype.startswith(("float", "bfloat")):
            continue
        array: Array | None = None
        for candidate in by_shape.get(tuple(data.shape), []):
            array = data.numpy() if array is None else array
            value = computed.get(id(candidate))
            if value is None:
                value = candidate.compute()
                if value.size <= 1 << 16:
                    computed[id(candidate)] = value
            units = units_apart(array, value)
            if units > _MOST_UNITS and value.ndim < 2:  # a bias that cancels, computed in float32
                units = max(1.0, units_apart(array, value, np.abs(value).max(initial=0)))
            if units <= _MOST_UNITS:
                stated = _ROUNDED if units <= _ROUNDED else 2.0 ** math.ceil(math.log2(units))
                definitions.define(name, candidate.state(definitions), stated)
                break


def units_apart(array: Array, value: Array, size: float | None = None) -> float:
    """Return by how many units in the last place of an array, or of a number, a value is off at most."""
    few = array.dtype.name not in ("float32", "float64", "float16")  # bfloat16: 16 bits fewer
    own = np.abs(array.astype(np.float32) if few else array)
    near = np.minimum(np.abs(value).astype(own.dtype), own)  # below a power of 2 a unit is half of it
    near = near if size is None else np.array(size, own.dtype)
    unit = np.spacing(near).astype(np.float64) * (65536 if few else 1)
    with np.errstate(all="ignore"):
        apart = np.abs(array.astype(np.float64) - value) / unit
    return float(np.nan_to_num(apart, nan=np.inf).max(initial=0.0))


def folded_candidates(graph: Graph) -> list[Candidate]:
    """Return the parameters into which passes have folded normalisations, as their provenance has them."""
    provenance = graph.provenance
    if provenance is None:
        return []
    found: list[Candidate] = []
    for key, folds in provenance.folds.items():
        node = graph.node(key) if key in graph else None
        if not isinstance(node, Parameter):
            continue
        before = provenance.parameters[key].data if key in provenance.parameters else None
        given = [
            (fold, [provenance.parameters[s].data if isinstance(s, int) else s for s in fold.statistics])
            for fold in folds
        ]
        found.append(_folded(tuple(node.data.shape), before, given))
    return found


def _folded(
    shape: tuple[int, ...], before: TensorData | None, folds: list[tuple[Fold, list[TensorData]]]
) -> Candidate:
    def compute() -> Array:
        value = np.zeros(shape) if before is None else before.numpy().astype(np.float64)
        for fold, statistics in folds:
            gamma, beta, mean, variance = (s.numpy().astype(np.float64) for s in statistics)
            scale = gamma / np.sqrt(variance + np.float64(np.float32(fold.epsilon)))
            if fold.axis >= 0:
                value = value * scale.reshape([-1 if i == fold.axis else 1 for i in range(len(shape))])
            else:
                value = (value - mean) * scale + beta
        return value

    def state(out: Definitions) -> str:
        value = out.number(0.0) if before is None else out.leaf(before)
        for fold, statistics in folds:
            gamma, beta, mean, variance = (out.leaf(s) for s in statistics)
            scale = out.op("Div", gamma, out.op("Sqrt", out.op("Add", variance, out.number(fold.epsilon))))
            if fold.axis >= 0:
                along = out.sizes(*[-1 if i == fold.axis else 1 for i in range(len(shape))])
                value = out.op("Mul", value, out.op("Reshape", scale, along))
            else:
                value = out.op("Add", out.op("Mul", out.op("Sub", value, mean), scale), beta)
        return value

    return Candidate(shape, compute, state)


def unit_variance_candidates(graph: Graph) -> list[Candidate]:
    """Return 1 - epsilon for each size: the variance of a normalisation that a reader put back."""
    found: dict[tuple[tuple[int, ...], float], Candidate] = {}
    for part, node in walk_operators(graph):
        if node.op_type == "BatchNormalization" and len(part.operands(node.key)) == 5:
            variance = part.operands(node.key)[4]
            held = None if variance is None else part.node(variance.node)
            if isinstance(held, (Constant, Parameter)):
                epsilon = float(np.float32(node.float("epsilon")))
                shape = tuple(held.data.shape)
                found[shape, epsilon] = _less_than_one(shape, epsilon)
    return list(found.values())


def _less_than_one(shape: tuple[int, ...], epsilon: float) -> Candidate:
    return Candidate(
        shape,
        lambda: np.full(shape, 1 - epsilon),
        lambda out: out.op("Sub", out.number(1.0, shape), out.number(epsilon)),
    )


def computed_candidates(graph: Graph) -> list[Candidate]:
    """Return what the source computes of its constants alone, which a target may hold as constants."""
    known: dict[Value, Callable[[], Array]] = {}
    found: list[Candidate] = []

    for key in graph.order():
        node = graph.node(key)
        if isinstance(node, (Constant, Parameter)) and node.data.load is not None:
            known[Value(key)] = node.data.numpy
        elif isinstance(node, Operator) and not node.subgraphs():
            operands = graph.operands(key)
            given = [v for v in operands if v is not None]
            if not given or any(v not in known for v in given) or len(node.types) != 1:
                continue
            type_ = node.types[0]
            if type_ is None or not type_.is_static or not type_.dtype.startswith("float"):
                continue
            if math.prod(type_.static_shape()) > _MOST_COMPUTED:
                continue
            compute = _computing(graph, node, known)
            known[Value(key)] = compute
            found.append(Candidate(type_.static_shape(), compute, _stating(graph, key)))
    return found


def _computing(graph: Graph, node: Operator, known: dict[Value, Callable[[], Array]]) -> Callable[[], Array]:
    def compute() -> Array:
        arrays = [None if v is None else _double(known[v]()) for v in graph.operands(node.key)]
        out = evaluate_all(node, arrays, 1)
        return np.full((), np.nan) if out is None else out[0]

    return compute


def _double(array: Array) -> Array:
    return array.astype(np.float64) if array.dtype.name in ("float32", "float16", "bfloat16") else array


def _stating(graph: Graph, key: int) -> Callable[[Definitions], str]:
    def state(out: Definitions) -> str:
        names: dict[Value, str] = {}
        order: list[int] = []
        stack = [key]
        while stack:
            at = stack.pop()
            order.append(at)
            stack += [source for _, source, _ in graph.flow.operands(at)]
        for at in dict.fromkeys(reversed(order)):
            node = graph.node(at)
            if isinstance(node, (Constant, Parameter)):
                names[Value(at)] = out.leaf(node.data)
            elif isinstance(node, Operator):
                row = write_operator(graph, node, out.tensors, {})
                value = f"d{len(out.nodes)}"
                operands = graph.operands(at)
                row.update({"in": ["" if v is None else names[v] for v in operands], "out": [value]})
                out.nodes.append(row)
                names[Value(at)] = value
        return names[Value(key)]

    return state


def define_numbers(definitions: Definitions, tensors: Iterable[str]) -> None:
    """State for each tensor of one number the root, the quotient or the decimal that it is the rounding of.

    Frameworks write one formula with different roundings: division by 1.4142135, product with 0.70710677.
    """
    known = {row["tensor"] for row in definitions.rows}
    for name in tensors:
        data = definitions.tensors.data[name]
        if name in known or math.prod(data.shape) != 1 or not data.dtype.startswith("float"):
            continue
        array = data.numpy().reshape(())
        state = _number_behind(array)
        if state is not None:
            definitions.define(name, state(definitions), _ROUNDED)


def _number_behind(array: Array) -> Callable[[Definitions], str] | None:
    """Return how to state the exact number whose rounding an array of one element is; None for none found."""
    value = abs(float(array))
    if not 1e-12 < value < 1e6:
        return None

    def rounds(number: float) -> bool:
        return units_apart(np.abs(array), np.asarray(number, np.float64)) <= _ROUNDED

    def signed(state: Callable[[Definitions], str]) -> Callable[[Definitions], str]:
        return state if float(array) > 0 else lambda out: out.op("Neg", state(out))

    def is_root(whole: int, power: float) -> bool:
        return 2 <= whole <= 65536 and math.isqrt(whole) ** 2 != whole and rounds(whole**power)

    square, inverse = round(value**2), round(value**-2)
    fourth, below = round(value**4), round(value**-4)  # queries and keys of attention, each scaled
    if rounds(math.sqrt(2 / math.pi)):
        return signed(lambda out: out.op("Div", out.root(2), out.op("Sqrt", out.op("Pi"))))
    if is_root(square, 0.5):
        return signed(lambda out: out.root(square))
    if is_root(inverse, -0.5):
        return signed(lambda out: out.op("Reciprocal", out.root(inverse)))
    if is_root(fourth, 0.25):
        return signed(lambda out: out.op("Sqrt", out.root(fourth)))
    if is_root(below, -0.25):
        return signed(lambda out: out.op("Reciprocal", out.op("Sqrt", out.root(below))))
    quotient = Fraction(value).limit_denominator(1 << 16)
    for found in (Fraction(f"{value:.6g}"), quotient):  # 0.044715 is 8943 / 200000, not 1 / 22.36...
        small = found.numerator < 1 << 24 and found.denominator < 1 << 60
        if small and found.denominator & (found.denominator - 1) and rounds(float(found)):
            return signed(_quotient(found))
    return None


def _quotient(number: Fraction) -> Callable[[Definitions], str]:
    above, below = (np.array(n, np.int64) for n in (number.numerator, number.denominator))
    return lambda out: out.op("Div", out.exact(above), out.exact(below))
