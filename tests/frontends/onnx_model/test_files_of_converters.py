"""What converters write that ONNX Runtime takes and its own documents do not show."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto as T
from onnx import helper, numpy_helper

import regraft

RANDOM = np.random.default_rng(0)
Arrays = dict[str, np.ndarray]


def floats(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def info(name: str, shape: list[int | str] | None, dtype: int = T.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


def model_of(
    nodes: list[onnx.NodeProto],
    inputs: list[onnx.ValueInfoProto],
    outputs: list[onnx.ValueInfoProto],
    stored: Arrays,
    opset: int,
) -> onnx.ModelProto:
    weights = [numpy_helper.from_array(array, name) for name, array in stored.items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def minus_ones() -> tuple[onnx.ModelProto, list[Arrays]]:
    """Open sizes as -1."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["y"]),
    ]
    made = model_of(
        nodes, [info("x", [-1, 3, 8, -1])], [info("y", [-1, 4, 8, -1])], {"w": floats(4, 3, 3, 3)}, 11
    )
    return made, [{"x": floats(2, 3, 8, 10)}, {"x": floats(1, 3, 8, 7)}]


def statistics_of_one_batch() -> tuple[onnx.ModelProto, list[Arrays]]:
    """BatchNormalization in training mode, of which one statistic is an output and the other is not."""
    stored = {"s": floats(3), "b": floats(3), "m": floats(3), "v": np.abs(floats(3)) + np.float32(0.5)}
    node = helper.make_node("BatchNormalization", ["x", *stored], ["y", "mean", "variance"], training_mode=1)
    outputs = [info("y", ["n", 3, 2, 2]), info("mean", [3])]
    return model_of([node], [info("x", ["n", 3, 2, 2])], outputs, stored, 15), [{"x": floats(4, 3, 2, 2)}]


def loop_with_states() -> tuple[onnx.ModelProto, list[Arrays]]:
    """A recurrent layer as a Loop: a state, and what it is in each round."""
    inside = [
        helper.make_node("Gather", ["steps", "i"], ["step"], axis=0),
        helper.make_node("MatMul", ["step", "w"], ["a"]),
        helper.make_node("MatMul", ["state", "u"], ["b"]),
        helper.make_node("Add", ["a", "b"], ["ab"]),
        helper.make_node("Tanh", ["ab"], ["next"]),
        helper.make_node("Identity", ["on"], ["still"]),
        helper.make_node("Identity", ["next"], ["each"]),
    ]
    body = helper.make_graph(
        inside,
        "body",
        [info("i", [], T.INT64), info("on", [], T.BOOL), info("state", None)],
        [info("still", [], T.BOOL), info("next", None), info("each", None)],
    )
    nodes = [
        helper.make_node("Transpose", ["x"], ["steps"], perm=[1, 0, 2]),
        helper.make_node("Shape", ["steps"], ["sizes"]),
        helper.make_node("Gather", ["sizes", "at"], ["number"], axis=0),
        helper.make_node("Loop", ["number", "", "start"], ["last", "all"], body=body),
        helper.make_node("Transpose", ["all"], ["y"], perm=[1, 0, 2]),
    ]
    stored = {"w": floats(3, 4), "u": floats(4, 4), "at": np.array(0), "start": floats(1, 4)}
    outputs = [info("y", None), info("last", None)]
    made = model_of(nodes, [info("x", [1, "t", 3])], outputs, stored, 13)
    return made, [{"x": floats(1, 6, 3)}, {"x": floats(1, 2, 3)}]


def loop_without_states() -> tuple[onnx.ModelProto, list[Arrays]]:
    """A Loop that collects its rounds and has no state, and so no operand but their number."""
    body = helper.make_graph(
        [
            helper.make_node("Gather", ["x", "i"], ["row"], axis=0),
            helper.make_node("Softmax", ["row"], ["each"], axis=-1),
            helper.make_node("Identity", ["on"], ["still"]),
        ],
        "body",
        [info("i", [], T.INT64), info("on", [], T.BOOL)],
        [info("still", [], T.BOOL), info("each", [4])],
    )
    nodes = [helper.make_node("Loop", ["number", ""], ["y"], body=body)]
    stored = {"number": np.array(3)}
    return model_of(nodes, [info("x", [3, 4])], [info("y", [3, 4])], stored, 13), [{"x": floats(3, 4)}]


@pytest.mark.parametrize(
    ("make", "targets"),
    [
        (minus_ones, ["onnx", "mindspore"]),
        (statistics_of_one_batch, ["onnx", "mindspore"]),
        (loop_with_states, ["onnx"]),
        (loop_without_states, ["onnx", "mindspore"]),
    ],
)
def test_files_compute_what_onnx_runtime_computes_of_them(make, targets: list[str], tmp_path: Path) -> None:
    model, feeds = make()
    onnx.save(model, tmp_path / "net.onnx")
    graph = regraft.load(tmp_path / "net.onnx", feeds[0])
    rewritten = regraft.rewrite(graph).graph
    for target in targets:
        out = tmp_path / ("out.onnx" if target == "onnx" else "out")
        regraft.save(rewritten, out, to=target)
        report = regraft.verify(graph, out)
        assert report.passed, report.render()
    before, after = (
        onnxruntime.InferenceSession(str(tmp_path / name), providers=["CPUExecutionProvider"])
        for name in ("net.onnx", "out.onnx")
    )
    for feed in feeds:
        for a, b in zip(before.run(None, feed), after.run(None, feed), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
