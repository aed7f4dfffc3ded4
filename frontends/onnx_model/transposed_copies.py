"""Reads a table again where torch's older exporter stored its transpose beside it, as a weight of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import onnx

from ...ir import TensorData
from .operation_scopes import TORCH
from .scopes import scopes_of
from .torch_exporter import Traced
from .traced_operators import TRACED


def read_transposed_copies(proto: onnx.ModelProto, stored: Mapping[str, TensorData]) -> Traced:
    """Return a model in which products with the transpose of another weight read that weight.

    The exporter folds ``table.weight.T`` of a tied layer into a matrix of its own, which training would leave
    behind. A file without such a copy is returned as it is.
    """
    traced = Traced(proto, dict(stored))
    copies = list(_copies(proto, stored))
    if not copies:
        return traced
    scopes = scopes_of(proto)
    traced.model = onnx.ModelProto()
    traced.model.CopyFrom(proto)
    nodes = traced.model.graph.node
    sums: list[int] = []
    for number, weight in copies:
        node = nodes[number]
        node.op_type, node.domain = "Linear", TRACED
        node.input[1] = weight
        if scopes is not None and scopes[number]:
            traced.aliases[".".join((*(name for name, _ in scopes[number]), "weight"))] = weight
        added = _added(traced.model.graph, node.output[0], stored[weight].shape[:1], stored)
        if added is not None:
            at, bias = added
            node.input.append(bias)
            node.output[0] = nodes[at].output[0]
            sums.append(at)
    for at in sorted(sums, reverse=True):
        del nodes[at]
    return traced


def _added(
    graph: onnx.GraphProto, product: str, shape: tuple[int, ...], stored: Mapping[str, TensorData]
) -> tuple[int, str] | None:
    """Return (the number of the sum that alone reads a product, the bias that it adds); None for none."""
    if any(output.name == product for output in graph.output):
        return None
    readers = [number for number, node in enumerate(graph.node) if product in node.input]
    if len(readers) != 1 or graph.node[readers[0]].op_type != "Add" or graph.node[readers[0]].domain:
        return None
    others = [name for name in graph.node[readers[0]].input if name != product]
    is_bias = len(others) == 1 and others[0] in stored and stored[others[0]].shape == shape
    return (readers[0], others[0]) if is_bias else None


def _copies(proto: onnx.ModelProto, stored: Mapping[str, TensorData]) -> Iterator[tuple[int, str]]:
    """Yield (a product's number, the weight whose transpose it reads)."""
    products = [
        (number, node.input[1])
        for number, node in enumerate(proto.graph.node)
        if node.op_type == "MatMul" and not node.domain and node.input[1].startswith(TORCH)
    ]
    by_shape: dict[tuple[int, ...], list[str]] = {}
    for name, data in stored.items() if products else ():
        if len(data.shape) == 2 and data.dtype.startswith(("float", "bfloat")) and not name.startswith(TORCH):
            by_shape.setdefault(data.shape[::-1], []).append(name)
    for number, name in products:
        data = stored.get(name)
        if data is not None:
            same = [other for other in by_shape.get(data.shape, ()) if _is_transpose(data, stored[other])]
            if len(same) == 1:
                yield number, same[0]


def _is_transpose(data: TensorData, other: TensorData) -> bool:
    """Whether a matrix is another's transpose, and not because both are of one number."""
    if data.dtype != other.dtype or not min(data.shape):
        return False
    mine, theirs = data.numpy(), other.numpy().T
    is_equal = np.array_equal(mine[0], theirs[0]) and np.array_equal(mine, theirs)
    return is_equal and bool((mine != mine[0, 0]).any())
