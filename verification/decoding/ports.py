"""The inputs and outputs of a model as a step feeds them: names, element types, and axes that may be open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx

from ...ir import Graph
from ...ir.types import dtype_of_onnx
from ..runners.onnx_runner import OnnxRunner
from ..runners.runs import Runner

Dim = int | str | None


@dataclass(frozen=True, slots=True)
class Port:
    """One input or output.

    Attributes:
        name: its name.
        dtype: element type.
        dims: a size, a symbol or None for each axis; None for an unknown rank.
    """

    name: str
    dtype: str
    dims: tuple[Dim, ...] | None

    @property
    def rank(self) -> int | None:
        """The number of axes; None if it is unknown."""
        return None if self.dims is None else len(self.dims)


@dataclass(frozen=True, slots=True)
class Ports:
    """The inputs and outputs of one side.

    Attributes:
        side: "source" or "target".
        inputs: in the order in which the side takes them.
        outputs: in the order in which it returns them.
        examples: example arrays by the name of an input, where the side has them.
    """

    side: str
    inputs: Sequence[Port]
    outputs: Sequence[Port]
    examples: dict[str, np.ndarray] = field(default_factory=dict[str, np.ndarray])


def ports_of_graph(side: str, graph: Graph) -> Ports:
    """Return the ports of a graph."""
    types = [graph.type_of(value) for _, value in graph.outputs]
    return Ports(
        side,
        [Port(node.name, node.type.dtype, _dims(node.type.shape)) for node in graph.input_nodes()],
        [
            Port(name, "" if type_ is None else type_.dtype, None if type_ is None else _dims(type_.shape))
            for (name, _), type_ in zip(graph.outputs, types, strict=True)
        ],
        dict(graph.origin.inputs),
    )


def ports_of_target(target: Graph | Path, runner: Runner, source: Ports) -> Ports:
    """Return the ports of a target.

    A folder of source has the ports of the model that it was written from, in order.
    """
    if isinstance(target, Graph):
        return ports_of_graph("target", target)
    if isinstance(runner, OnnxRunner):
        graph = runner.model.graph
        held = {tensor.name for tensor in graph.initializer}
        inputs = [_port(info) for info in graph.input if info.name not in held]
        return Ports("target", inputs, [_port(info) for info in graph.output])
    return Ports("target", source.inputs, source.outputs, source.examples)


def _dims(shape: Sequence[Dim] | None) -> tuple[Dim, ...] | None:
    return None if shape is None else tuple(shape)


def _port(info: onnx.ValueInfoProto) -> Port:
    tensor = info.type.tensor_type
    if not tensor.HasField("shape"):
        return Port(info.name, dtype_of_onnx(tensor.elem_type), None)
    dims = tuple(d.dim_value if d.HasField("dim_value") else d.dim_param or None for d in tensor.shape.dim)
    return Port(info.name, dtype_of_onnx(tensor.elem_type), dims)
