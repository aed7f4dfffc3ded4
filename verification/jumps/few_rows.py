"""Finds inputs on which a model selects fewer rows than usual: there a threshold decides, and no maximum."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np

from ...ir import Graph, ModelError
from ..bending import multiply_floats
from ..report import OutputRow
from ..runners.onnx_selected import FINDS
from ..runners.runs import Run

_FACTORS = (0.5, 0.2, 0.05, 0.0)
"""Multiples of the usual inputs on which rows are counted, in the order in which they are tried."""

_HALVINGS = 4
"""Runs between two multiples, of which one has as many rows as usual and the other fewer."""

_MOST = 2
"""Number of inputs that are compared."""


def inputs_with_few_rows(
    graph: Graph, run: Callable[[Mapping[str, np.ndarray]], Run], inputs: Mapping[str, np.ndarray]
) -> Iterator[Mapping[str, np.ndarray]]:
    """Yield multiples of inputs on which outputs have rows, and fewer than on these.

    Args:
        graph: the source's graph.
        run: runs the source.
        inputs: arrays by input name.
    """
    open_ = _outputs_of_found_rows(graph)
    if not open_:
        return

    def count(factor: float) -> int:
        outputs = run(multiplied(factor)).outputs
        return sum(len(outputs[at][1]) for at in open_)

    def multiplied(factor: float) -> dict[str, np.ndarray]:
        return {name: multiply_floats(array, factor) for name, array in inputs.items()}

    try:
        usual, many, few, found = count(1.0), 1.0, None, dict[int, float]()
        for factor in _FACTORS:
            rows = count(factor)
            if 0 < rows < usual:
                found.setdefault(rows, factor)
            if rows < usual:
                few = factor
                break
            many = factor
        for _ in range(_HALVINGS if few is not None and usual else 0):
            assert few is not None
            middle = (many + few) / 2
            rows = count(middle)
            if 0 < rows < usual:
                found.setdefault(rows, middle)
            many, few = (many, middle) if rows < usual else (middle, few)
    except ModelError:
        return
    for _, factor in sorted(found.items())[-_MOST:]:
        yield multiplied(factor)


def rows_of_one_number(graph: Graph, rows: Iterable[OutputRow]) -> list[tuple[str, int]]:
    """Return outputs that had as many rows in all cases, but for those with none, and how many.

    Args:
        graph: the source's graph.
        rows: of all cases.
    """
    names = [graph.outputs[at][0] for at in _outputs_of_found_rows(graph)]
    numbers: dict[str, set[int]] = {name: set() for name in names}
    for row in rows:
        if row.name in numbers and row.shape:
            numbers[row.name] |= {row.shape[0]} - {0}
    return [(name, max(found)) for name, found in numbers.items() if len(found) == 1]


def finds_rows(graph: Graph) -> bool:
    """Whether operators of a graph find elements by data, and an output has as many rows."""
    finds = any(node.op_type in FINDS for node in graph.operators())
    return finds and bool(_outputs_of_found_rows(graph))


def _outputs_of_found_rows(graph: Graph) -> list[int]:
    """Return the places of outputs of which data give the number of rows, and no size of an input."""
    inputs = {n for node in graph.input_nodes() for n in node.type.shape or () if not isinstance(n, int)}
    types = [graph.type_of(value) for _, value in graph.outputs]
    sizes = [t.shape[0] if t is not None and t.shape else 0 for t in types]
    return [
        at
        for at, size in enumerate(sizes)
        if not isinstance(size, int) and not any(str(symbol) in str(size) for symbol in inputs)
    ]
