"""Operators of an ONNX file are counted without reading its weights."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from regraft.api.targets import count_operators
from regraft.backends.onnx_model.counting import count_nodes
from regraft.ir import Graph, ModelError

WEIGHTS = np.zeros((1024, 1024), np.float32)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An If whose branches add and multiply, behind 4 MB of weights."""
    info = helper.make_tensor_value_info
    result = info("z", TensorProto.FLOAT, [1024])
    branches = [
        helper.make_graph([helper.make_node(op, ["y", "y"], ["z"])], op, [], [result])
        for op in ("Add", "Mul")
    ]
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["y"]),
            helper.make_node("If", ["c"], ["z"], then_branch=branches[0], else_branch=branches[1]),
        ],
        "net",
        [info("x", TensorProto.FLOAT, [1024]), info("c", TensorProto.BOOL, [])],
        [result],
        [numpy_helper.from_array(WEIGHTS, "w")],
    )
    path = tmp_path_factory.mktemp("counted") / "net.onnx"
    onnx.save(helper.make_model(graph), path)
    return path


def test_nodes_of_nested_graphs_count(written: Path) -> None:
    assert count_nodes(written) == {"MatMul": 1, "If": 1, "Add": 1, "Mul": 1}
    assert ("MatMul", 0, 1) in count_operators(Graph(), written)


def test_weights_are_passed_over(written: Path) -> None:
    count_nodes(written)
    tracemalloc.start()
    try:
        count_nodes(written)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < WEIGHTS.nbytes / 16


@pytest.mark.parametrize("kept", [1, 40, 1000, -1])
def test_a_file_that_ends_too_early_is_refused(kept: int, written: Path, tmp_path: Path) -> None:
    path = tmp_path / "cut.onnx"
    path.write_bytes(written.read_bytes()[:kept])
    with pytest.raises(ModelError, match=r"E101 [\s\S]*ONNX model"):
        count_nodes(path)


@pytest.mark.parametrize(
    "content", [b"\x0b\x00", b"\x3a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", b"\x3a\x03\x0a\x01\xff"]
)
def test_what_is_no_model_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "no.onnx"
    path.write_bytes(content)
    with pytest.raises(ModelError, match=r"E101 [\s\S]*ONNX model"):
        count_nodes(path)
