"""Finds equal values among which an operator has to choose: both sides take the first, others may not.

Torch and MindSpore leave open which of several equal elements `topk` and `sort` find. A comparison lets both
find the first, as ONNX does, so that what another choice leads to is not compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ..ir import Graph, Operator, RegraftError, Value
from .compare import kind_of
from .probes import Probe

_MOST = 2**22
"""Elements of an operand above which it is not looked at."""


class Tie(NamedTuple):
    """Equal values that one operator chooses among.

    Attributes:
        operator: the operator and its place, in words.
        equal: the most values that are equal in one choice.
        choices: number of choices that equal values decide.
    """

    operator: str
    equal: int
    choices: int

    def remark(self) -> str:
        """Describe it as a note."""
        times = f"{self.choices} times" if self.choices > 1 else "once"
        return (
            f"{self.operator} chooses {times} among equal values, up to {self.equal}: both sides take the "
            f"first, and the results of another choice were not compared"
        )


def find_ties(graph: Graph, inputs: Mapping[str, np.ndarray]) -> list[Tie]:
    """Return the ties that inputs lead to in a graph, which ONNX Runtime runs; none where it cannot.

    Args:
        graph: the source's graph; it is not changed.
        inputs: arrays by input name.
    """
    chosen = [node for node in graph.operators() if chooses(graph, node)]
    if not chosen:
        return []
    operands = [graph.operands(node.key) for node in chosen]
    values = list(dict.fromkeys(v for some in operands for v in some[:2] if v is not None))
    probe = Probe(graph, lambda _: ((f"chosen {at}", value) for at, value in enumerate(values)))
    try:
        arrays = dict(zip(values, probe.run(inputs), strict=True))
        probe.close()
    except RegraftError:
        return []
    found: list[Tie] = []
    for node, some in zip(chosen, operands, strict=True):
        counts = _count(node, [arrays[v] for v in some[:2] if v is not None])
        tied = counts[counts > 1]
        if tied.size:
            found.append(Tie(graph.describe(node.key), int(tied.max()), int(tied.size)))
    return found


def chooses(graph: Graph, node: Operator) -> bool:
    """Whether an operator gives places of values, which something reads."""
    if node.qualified_name in ("ArgMax", "ArgMin"):
        return True
    if node.qualified_name not in ("MaxPool", "TopK", "regraft.KthValue"):
        return False
    places = Value(node.key, 1)
    return bool(graph.users(places)) or any(value == places for _, value in graph.outputs)


def _count(node: Operator, arrays: list[np.ndarray]) -> np.ndarray:
    """Return, for each choice, how many values are equal to one another there; 1 where none are."""
    x = arrays[0]
    nothing = np.zeros(0, np.int64)
    if not x.size or x.size > _MOST or kind_of(x) not in "fi" or np.isnan(x).any():
        return nothing
    if node.op_type == "MaxPool":
        return _count_in_windows(node, x)
    axis = node.int("axis")
    rows = np.moveaxis(x, axis, -1)
    if node.op_type == "KthValue":
        chosen = np.sort(rows, axis=-1)[..., node.int("k") - 1][..., None]
        return (rows == chosen).sum(-1).reshape(-1)
    if node.op_type != "TopK":
        best = rows.max(-1, keepdims=True) if node.op_type == "ArgMax" else rows.min(-1, keepdims=True)
        return (rows == best).sum(-1).reshape(-1) if kind_of(x) == "f" else nothing
    k = int(arrays[1].reshape(-1)[0])
    if k < 1:
        return nothing
    ordered = np.sort(rows, axis=-1)
    ordered = ordered[..., ::-1] if node.int("largest") else ordered
    ordered = ordered.reshape(-1, rows.shape[-1])
    met = ordered[:, : k + 1]
    decided = (met[:, 1:] == met[:, :-1]).any(-1)
    return np.array([_longest(row, k) for row in ordered[decided]], np.int64)


def _longest(row: np.ndarray, k: int) -> int:
    """Return the length of the longest run of equal values, of those that begin among the first `k`."""
    starts = np.flatnonzero(np.concatenate([[True], row[1:] != row[:-1], [True]]))
    return int(np.diff(starts)[starts[:-1] < k].max())


def _count_in_windows(node: Operator, x: np.ndarray) -> np.ndarray:
    """Return, for each window of a pool without padding, how many of its values are the largest."""
    kernel = tuple(node.ints("kernel_shape"))
    strides = node.ints("strides") or [1] * len(kernel)
    dilated = any(d != 1 for d in node.ints("dilations"))
    if any(node.ints("pads")) or dilated or x.size * int(np.prod(kernel)) > _MOST:
        return np.zeros(0, np.int64)
    axes = tuple(range(2, x.ndim))
    windows = np.lib.stride_tricks.sliding_window_view(x, kernel, axes)  # type: ignore[call-overload]
    windows = windows[(slice(None), slice(None), *(slice(None, None, s) for s in strides))]
    windows = windows.reshape(-1, int(np.prod(kernel)))
    return (windows == windows.max(-1, keepdims=True)).sum(-1)
