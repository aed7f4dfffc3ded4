"""Seeded inputs for a comparison, made to fit what the graph does with them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from ..frontends.inputs import drawn_within
from ..ir import Graph, Input, Operator, TensorType, UsageError, Value, numpy_dtype
from .meaning import with_meaning

_BATCHES = (1, 2, 5)
"""Sizes of the batch: 1, at which axes vanish; the usual example; and one above the width of vectors."""


_ALONE = 4
"""Most open axes of which each is tried alone; of more, halves are, so that every two are parted once."""


def other_sizes(graph: Graph, sizes: dict[str, int]) -> list[dict[str, int]]:
    """Return further sizes of the graph's symbols to run at, because a symbol alone proves nothing.

    The batch (symbols on axis 0 of an input) becomes 1, 2 and 5, and the other symbols double, which keeps
    what is divisible divisible. Then each symbol becomes 1 alone, because axes vanish and ranges are empty
    there, and another size alone; and all do together.
    """
    free = open_symbols(graph)
    batch = sorted(free & batch_symbols(graph))
    rest = sorted(free - set(batch))
    another = {**dict.fromkeys(batch, _BATCHES[-1]), **{s: 2 * sizes[s] for s in rest}}
    found = [dict.fromkeys(batch, size) for size in _BATCHES]
    found.append({s: another[s] for s in rest})
    parts = _parts([*batch, *rest])
    found += [dict.fromkeys(part, 1) for part in parts]
    found += [{s: another[s] for s in part} for part in parts]
    found += [dict.fromkeys(rest, 1), dict.fromkeys([*batch, *rest], 1), another]
    further = [{**sizes, **changed} for changed in found]
    return [f for at, f in enumerate(further) if f != sizes and f not in further[:at]]


def open_symbols(graph: Graph) -> set[str]:
    """Return the symbols of the inputs' axes, without what is computed of others."""
    symbols = {s for node in graph.input_nodes() for s in node.type.shape or () if isinstance(s, str)}
    return {s for s in symbols if s.isidentifier()}


def _parts(symbols: Sequence[str]) -> list[list[str]]:
    """Return each symbol alone; of many, the halves by each bit of their numbers."""
    if len(symbols) <= _ALONE:
        return [[s] for s in symbols]
    bits = range((len(symbols) - 1).bit_length())
    halves = [[s for n, s in enumerate(symbols) if (n >> bit) % 2 == side] for bit in bits for side in (0, 1)]
    return [half for half in halves if half]


LARGEST = 256 * 2**20
"""Most bytes of one value at which a larger batch is run; all values of a model are many times that."""


def measure_largest_value(graph: Graph, sizes: Mapping[str, int]) -> int:
    """Return the bytes of the largest value in a graph at these sizes; symbolic expressions count as 1."""
    found = 0
    for node in graph.operators():
        for type_ in node.types:
            if type_ is not None and type_.shape is not None and type_.dtype != "string":
                dims = [d if isinstance(d, int) else sizes.get(d, 1) if d else 1 for d in type_.shape]
                found = max(found, math.prod(dims) * numpy_dtype(type_.dtype).itemsize)
    return found


def batch_symbols(graph: Graph) -> set[str]:
    """Return the symbols on axis 0 of the inputs."""
    leading = {node.type.shape[0] for node in graph.input_nodes() if node.type.shape}
    return {symbol for symbol in leading if isinstance(symbol, str)}


def bindings(graph: Graph, inputs: Mapping[str, np.ndarray] | None = None) -> dict[str, int]:
    """Return symbol -> size, from the inputs given or else the graph's examples; 2 without either."""
    found: dict[str, int] = {}
    for node in graph.input_nodes():
        example = (graph.origin.inputs if inputs is None else inputs).get(node.name)
        for axis, dim in enumerate(node.type.shape or ()):
            if isinstance(dim, str):
                known = () if example is None else example.shape
                found.setdefault(dim, int(known[axis]) if axis < len(known) else 2)
    return found


_VARIATIONS = (
    lambda a: a,
    np.abs,
    lambda a: -np.abs(a),
    lambda a: 10 * a,
    lambda a: np.abs(a) / 10,
    lambda a: -10 * np.abs(a),
    lambda a: a + 3,
    np.zeros_like,
)
"""Functions of standard normal numbers, used one draw after the other, to reach every branch."""


KINDS = len(_VARIATIONS)
"""Number of draws that differ in kind."""


KIND_OF_DRAW: dict[str, Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]] = {
    "x10": lambda random, shape: 10 * random.standard_normal(shape),
    "+3": lambda random, shape: random.standard_normal(shape) + 3,
    "sparse": lambda random, shape: random.standard_normal(shape) * (random.random(shape) < 0.125),
    "data-like": lambda random, shape: random.random(shape),
}
"""Floats other than standard normal ones, by name in the report: large, far from zero on average, mostly
zero, and like images. Integers keep their range, which may have a meaning. There is no draw of zeros:
behind a bias they give a plane of equal values, whose sum is 100 units off in ONNX Runtime at 64 x 64 and
whose variance is rounding alone."""


REPEATED = "repeated"
"""A draw in which every example repeats one index, so that one value follows throughout, of either sign."""


def make_inputs(
    graph: Graph, sizes: dict[str, int], seed: int = 0, draw: int | str = 0
) -> dict[str, np.ndarray]:
    """Draw inputs by name: floats standard normal, indices within their table, other integers as the example.

    Args:
        graph: the source graph.
        sizes: symbol -> size.
        seed: the same seed gives the same inputs.
        draw: a number above 0: floats and integers are further from the usual, each number in a way of its
            own; a name of `KIND_OF_DRAW`: floats are of that kind; `REPEATED`: indices are, in every example.

    Raises:
        UsageError: when an input's shape is not known.
    """
    drawn = {
        node.name: _array(graph, node, sizes, np.random.default_rng([seed, position]), draw)
        for position, node in enumerate(graph.input_nodes())
    }
    return with_meaning(graph, drawn)


def is_varied(graph: Graph) -> bool:
    """Whether some input differs between the kinds of draws: real numbers that do not select anything."""
    return any("float" in node.type.dtype and not is_index(graph, node) for node in graph.input_nodes())


def has_indices(graph: Graph) -> bool:
    """Whether some input selects from a table, as word indices do."""
    return any(is_index(graph, node) for node in graph.input_nodes())


def is_index(graph: Graph, node: Input) -> bool:
    """Whether an input selects from a table."""
    return next(_table_rows(graph, Value(node.key)), None) is not None


def equalise_inputs(graph: Graph, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray] | None:
    """Return the inputs with real ones of one type made equal; None if no two have one type.

    Only such a pair shows some faults, such as a wrong epsilon of a distance.
    """
    first: dict[TensorType, np.ndarray] = {}
    out = dict(inputs)
    for node in graph.input_nodes():
        if "float" in node.type.dtype and node.name in out:
            found = first.setdefault(node.type, out[node.name])
            out[node.name] = found if found.shape == out[node.name].shape else out[node.name]
    return out if any(out[name] is not inputs[name] for name in inputs) else None


def add_nonfinite(inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the inputs with NaN and infinities at the start of each array of real numbers."""
    out = dict(inputs)
    for name, array in inputs.items():
        if "float" in array.dtype.name:
            out[name] = array.copy()
            out[name].reshape(-1)[:3] = np.array([np.nan, np.inf, -np.inf], array.dtype)[: array.size]
    return out


def resize_inputs(
    graph: Graph, inputs: Mapping[str, np.ndarray], sizes: dict[str, int]
) -> dict[str, np.ndarray]:
    """Return the inputs at other sizes of their symbols: cut, or repeated from the start."""
    out = dict(inputs)
    for node in graph.input_nodes():
        for axis, dim in enumerate(node.type.shape or ()):
            if isinstance(dim, str) and dim in sizes and node.name in out:
                array = out[node.name]
                out[node.name] = np.take(array, np.arange(sizes[dim]) % array.shape[axis], axis=axis)
    return out


def _array(
    graph: Graph, node: Input, sizes: dict[str, int], random: np.random.Generator, draw: int | str
) -> np.ndarray:
    """Draw one input, by its type and by what the graph does with it."""
    shape = _shape(node.type, sizes, graph.origin.inputs.get(node.name))
    if shape is None:
        raise UsageError(
            "E103",
            f"expected a known shape, got {node.type}",
            place=f"input `{node.name}`",
            hint=f"give it with --input {node.name}=SHAPE",
        )
    dtype = numpy_dtype(node.type.dtype)
    if (bounds := graph.origin.ranges.get(node.name)) is not None:
        return drawn_within(random, bounds, shape, dtype)
    rows = min(_table_rows(graph, Value(node.key)), default=None)
    if rows is not None:
        drawn = random.integers(
            0, max(rows, 1), (*shape[:1], *[1] * len(shape[1:])) if draw == REPEATED else shape
        )
        if draw and drawn.size > 1:  # the first and the last row may be others: padding, unknown words
            drawn.reshape(-1)[[0, -1]] = 0, max(rows, 1) - 1
        return np.broadcast_to(drawn, shape).astype(dtype)
    if node.type.dtype.startswith("complex"):
        return (random.standard_normal(shape) + 1j * random.standard_normal(shape)).astype(dtype)
    example = graph.origin.inputs.get(node.name)
    if "float" in node.type.dtype:
        if draw == "data-like" and graph.origin.given and example is not None and example.size:
            return random.choice(example.ravel(), shape).astype(dtype)  # as the user's data are
        if draw in KIND_OF_DRAW:
            return np.asarray(KIND_OF_DRAW[draw](random, shape), dtype)
        draw = 0 if isinstance(draw, str) else draw
        varied = _VARIATIONS[draw % len(_VARIATIONS)](random.standard_normal(shape))
        return np.asarray(varied, dtype)
    draw = 0 if isinstance(draw, str) else draw
    if example is not None and example.ndim == len(shape) and example.size:
        for axis, size in enumerate(shape):  # repeat or cut the example: its values mean something
            example = np.take(example, np.arange(size) % example.shape[axis], axis=axis)
        if draw and node.type.dtype == "bool":
            return random.random(shape) < 0.5
        if draw:
            return random.integers(0, 2 * max(int(example.max()), 1) + 1, shape).astype(dtype)
        return np.array(example, dtype, order="C")  # which keeps a scalar's rank
    if node.type.dtype == "bool":
        return random.random(shape) < 0.5
    return random.integers(0, 2, shape).astype(dtype)


def _shape(type_: TensorType, sizes: dict[str, int], example: np.ndarray | None) -> tuple[int, ...] | None:
    """Return an input's shape at some sizes, with the example's sizes for unknown ones; None without them."""
    if type_.shape is None:
        return None if example is None else tuple(example.shape)
    out: list[int] = []
    for axis, dim in enumerate(type_.shape):
        if isinstance(dim, int):
            out.append(dim)
        elif dim is not None and dim in sizes:
            out.append(sizes[dim])
        elif example is not None and axis < example.ndim:
            out.append(int(example.shape[axis]))
        else:
            return None
    return tuple(out)


def _table_rows(graph: Graph, value: Value) -> Iterator[int]:
    """Yield the number of rows, or classes, of every table that a value, also reshaped, selects from."""
    stack, seen = [value], {value}
    while stack:
        current = stack.pop()
        for key, slot in graph.users(current):
            node = graph.node(key)
            if not isinstance(node, Operator):
                continue
            if node.qualified_name in ("Gather", "regraft.CTCLoss") and slot == 1:
                table = graph.operands(key)[0]
                type_ = None if table is None else graph.type_of(table)
                axis = node.int("axis") if not node.domain else -1  # of classes
                size = None if type_ is None or type_.shape is None else type_.shape[axis]
                if isinstance(size, int):
                    yield size
            elif slot < 0:  # captured by nested graphs
                for body in node.subgraphs().values():
                    yield from _table_rows(body, Value(body.captures[-1 - slot]))
            elif slot == 0 and _keeps_numbers(node) and Value(key) not in seen:
                seen.add(Value(key))
                stack.append(Value(key))


def _keeps_numbers(node: Operator) -> bool:
    """Whether the result holds the same numbers as the first operand, as far as indexing goes."""
    return node.traits.moving or node.qualified_name in ("Cast", "Clip")
