"""Composites are expanded until everything is legal; what is left is named, all of it at once."""

import numpy as np
import onnxruntime
import pytest

from regraft.backends.legalise import Legalise
from regraft.backends.lowering import lower
from regraft.backends.onnx_model import to_model
from regraft.ir import (
    DOMAIN,
    Builder,
    Graph,
    Operator,
    TensorType,
    UnsupportedError,
    validate,
    walk_operators,
)


def pooled() -> Graph:
    """An adaptive pool and a Linear layer in the root graph, and a Linear layer in both branches of an If."""
    graph = Graph()
    b = Builder(graph)
    x = graph.add_input("x", TensorType("float32", ("N", 4, 7, 5)))
    weight = b.constant(np.arange(12, dtype=np.float32).reshape(3, 4))
    flat = b.op("Flatten", b.op("regraft.AdaptiveAveragePool", x, output_size=[1, 1]), axis=1)
    condition = b.op("Greater", b.op("ReduceMax", x, keepdims=0), b.constant(0.0))

    def branch(name: str) -> Graph:
        body = Graph(name, graph.modules)
        value = body.add_capture(graph.known_type(flat))
        matrix = body.add_capture(graph.known_type(weight))
        body.outputs.append(("y", Builder(body).op("regraft.Linear", value, matrix)))
        return body

    y = b.ops(
        "If",
        condition,
        captures=[flat, weight],
        types=[TensorType("float32", ("N", 3))],
        then_branch=branch("yes"),
        else_branch=branch("no"),
    )[0]
    graph.outputs = [("y", y), ("z", b.op("regraft.Linear", flat, weight))]
    validate(graph)
    return graph


def only_onnx(_: Graph, operator: Operator) -> bool:
    return operator.domain == ""


def test_everything_is_expanded_nested_graphs_included() -> None:
    graph = pooled()
    before = str(graph)
    legal = lower(graph, [Legalise("test", only_onnx)])
    validate(legal)
    assert not [node for _, node in walk_operators(legal) if node.domain == DOMAIN]
    assert str(graph) == before
    x = np.random.default_rng(0).standard_normal((2, 4, 7, 5)).astype(np.float32)
    expected = x.mean((2, 3)) @ np.arange(12, dtype=np.float32).reshape(3, 4).T
    for found in onnxruntime.InferenceSession(to_model(graph).SerializeToString()).run(None, {"x": x}):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_what_a_backend_can_emit_stays() -> None:
    legal = lower(pooled(), [Legalise("test", lambda _, node: node.op_type != "AdaptiveAveragePool")])
    assert [n.op_type for _, n in walk_operators(legal) if n.domain == DOMAIN] == ["Linear"] * 3
    assert "GlobalAveragePool" in [n.op_type for n in legal.operators()]


def test_everything_left_is_named_at_once() -> None:
    refused = {"Flatten", "GlobalAveragePool", "Gemm", "MatMul"}
    with pytest.raises(UnsupportedError) as caught:
        lower(pooled(), [Legalise("test", lambda _, node: node.domain == "" and node.op_type not in refused)])
    assert caught.value.code == "E601"
    missing = {m.operator: len(m.places) for m in caught.value.missing}
    assert missing["Flatten"] == 1
    assert missing["GlobalAveragePool"] == 1
    assert missing.get("Gemm", 0) + missing.get("MatMul", 0) == 3
