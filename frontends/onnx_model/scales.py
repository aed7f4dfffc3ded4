"""Finds Caffe's Scale layers: a factor and a shift for each channel, which ONNX has as four operators."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container
from dataclasses import dataclass

import onnx


@dataclass(frozen=True, slots=True)
class Scale:
    """A Scale layer.

    Attributes:
        weight: name of its factors.
        bias: name of its shifts.
        results: of its operators.
    """

    weight: str
    bias: str
    results: tuple[str, ...]


def find_scales(graph: onnx.GraphProto, stored: Container[str]) -> list[Scale]:
    """Return the layers whose factors and shifts are stored vectors, each unsqueezed for its place."""
    uses = Counter(name for node in graph.node for name in node.input)
    uses.update(output.name for output in graph.output)
    makers = {name: node for node in graph.node for name in node.output}
    found: list[Scale] = []
    for node in graph.node:
        product, shift = _unsqueezed(node, "Add", makers, stored)
        if product is None or shift is None or uses[product.output[0]] != 1:
            continue
        data, factor = _unsqueezed(product, "Mul", makers, stored)
        if factor is None or data is None or data.op_type != "BatchNormalization":
            continue
        parts = (factor, product, shift, node)
        if all(uses[part.output[0]] == 1 for part in (factor, shift)):
            results = tuple(part.output[0] for part in parts)
            found.append(Scale(factor.input[0], shift.input[0], results))
    return found


def _unsqueezed(
    node: onnx.NodeProto, kind: str, makers: dict[str, onnx.NodeProto], stored: Container[str]
) -> tuple[onnx.NodeProto | None, onnx.NodeProto | None]:
    """Return what makes the operands of a product or sum: any node, and an Unsqueeze of a stored tensor."""
    if node.op_type != kind or len(node.input) != 2:
        return None, None
    pair = [makers.get(name) for name in node.input]
    for data, vector in (pair, pair[::-1]):
        if vector is not None and vector.op_type == "Unsqueeze" and vector.input[0] in stored:
            return data, vector
    return None, None
