"""The meaning of inputs beyond shape and type: their range, and sorted order."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..ir import Graph, Input, Operator, Value

_FEWEST = 3
"""Elements from which on an example's order is taken for meant."""


def is_sorted(graph: Graph, node: Input) -> bool:
    """Whether an input is in order: as the values that the user gave are, or as what looks it up needs."""
    if any(_searches(graph, key, slot) for key, slot in graph.users(Value(node.key))):
        return True
    example = graph.origin.inputs.get(node.name)
    if not graph.origin.given or example is None or example.ndim != 1 or example.dtype.kind not in "iuf":
        return False  # rows in order are a picture of numbers that were counted up
    return len(example) >= _FEWEST and bool((np.diff(example) >= 0).all() and example[0] < example[-1])


def _searches(graph: Graph, key: int, slot: int) -> bool:
    node = graph.node(key)
    return isinstance(node, Operator) and node.qualified_name == "regraft.SearchSorted" and slot == 0


def with_meaning(graph: Graph, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the same inputs within their ranges, and in order where they are meant to be.

    A sorted one of integers starts as the example does: offsets at 0.
    """
    out = dict(inputs)
    for node in graph.input_nodes():
        array, bounds = out.get(node.name), graph.origin.ranges.get(node.name)
        if array is None:
            continue
        if bounds is not None:
            array = _within(array, bounds)
        if array.ndim and is_sorted(graph, node):
            array = np.sort(np.nan_to_num(array) if array.dtype.kind == "f" else array, axis=-1)
            example = graph.origin.inputs.get(node.name)
            if graph.origin.given and example is not None and example.dtype.kind in "iu":
                array[..., :1] = np.minimum(array[..., :1], example.min())
        out[node.name] = array
    return out


def _within(array: np.ndarray, bounds: tuple[int, int]) -> np.ndarray:
    low, high = bounds
    if array.dtype.kind in "iu":
        return array.clip(low, high - 1)
    return np.nan_to_num(array).clip(
        low, np.nextafter(np.array(high, array.dtype), np.array(low, array.dtype))
    )


def notes_of(graph: Graph) -> list[str]:
    """Return notes on the drawing of inputs."""
    ordered = [f"`{node.name}`" for node in graph.input_nodes() if is_sorted(graph, node)]
    ranges = [f"`{name}` in [{low},{high})" for name, (low, high) in graph.origin.ranges.items()]
    return [
        *([f"drawn in order, as the example is: {', '.join(ordered)}"] if ordered else []),
        *([f"drawn within the range given: {', '.join(ranges)}"] if ranges else []),
    ]
