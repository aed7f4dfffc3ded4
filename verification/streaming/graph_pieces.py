"""Runs a graph in pieces in ONNX Runtime, with the weights that its source has mapped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from ...backends.onnx_model.lowering import EXPRESSING
from ...backends.onnx_model.model import emit_model, lower_graph, used_parameters
from ...backends.onnx_model.streaming import is_external
from ...ir import Graph, TensorData
from ..runners.onnx_weights import Weights
from ..runners.records import ValueStore
from .onnx_pieces import OnnxPieces


class GraphPieces(OnnxPieces):
    """A graph in ONNX Runtime without optimisations: each piece takes its weights from the graph.

    Args:
        graph: a graph whose parameters have names of their own; it is not changed.
        budget: bytes of weights, as they are computed with, in one piece.
    """

    def __init__(self, graph: Graph, *, budget: int) -> None:
        self._data: dict[str, TensorData] = {}
        wide = any(p.data.dtype == "bfloat16" for p in graph.parameters())
        super().__init__(graph, wide=wide, budget=budget)

    def _load(self, model: Graph | onnx.ModelProto | Path | str) -> tuple[onnx.ModelProto, Weights]:
        assert isinstance(model, Graph)
        legal = lower_graph(model, EXPRESSING)
        self._data = {p.name: p.data for p in used_parameters(legal)}
        return emit_model(legal, data=False), {}

    def _stored(self, tensor: onnx.TensorProto) -> np.ndarray:
        if not is_external(tensor):
            return numpy_helper.to_array(tensor)
        data = self._data[tensor.name]
        return data.numpy().reshape(data.shape)

    def part(
        self, inputs: Sequence[str], outputs: Sequence[str]
    ) -> Callable[[Sequence[np.ndarray]], list[np.ndarray]]:
        """Return a function that runs the graph between some values and others, any number of times."""

        def run(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
            given = dict(zip(inputs, map(self._entering, arrays), strict=True))
            values = self._compute(given, outputs, ValueStore())
            return [values[name] for name in outputs]

        return run
