"""Quantised weights of a file: they stay as they are stored, unless somebody asks for floats."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto as T
from onnx import helper, numpy_helper

import regraft

LEVELS = [
    onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
    onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
]
RANDOM = np.random.default_rng(3)
STORED = {
    T.INT8: (-127, 128),
    T.UINT8: (0, 256),
    T.INT4: (-8, 8),
    T.UINT4: (0, 16),
    T.INT16: (-3000, 3000),
    T.FLOAT8E4M3FN: (-9, 9),
    T.FLOAT8E5M2: (-9, 9),
}
"""Element type -> where its numbers are drawn from."""


def _numbers(name: str, kind: int, shape: tuple[int, ...]) -> onnx.TensorProto:
    drawn = RANDOM.integers(*STORED[kind], shape)
    return helper.make_tensor(name, kind, shape, drawn.astype(np.float32).ravel().tolist())


def _floats(name: str, *shape: int) -> onnx.TensorProto:
    return numpy_helper.from_array((RANDOM.random(shape) * 0.02 + 0.01).astype(np.float32), name)


def _matmul(kind: int, how: str, rows: int = 8, columns: int = 6) -> onnx.ModelProto:
    """A product with stored numbers: of one scale, one a column, or one a block of rows."""
    scales = {"tensor": (), "axis": (columns,), "blocked": (rows // 4, columns)}[how]
    more = {"tensor": {}, "axis": {"axis": 1}, "blocked": {"axis": 0, "block_size": 4}}[how]
    tensors = [_numbers("w_stored", kind, (rows, columns)), _floats("w_scale", *scales)]
    given = ["w_stored", "w_scale"]
    if kind not in (T.FLOAT8E4M3FN, T.FLOAT8E5M2):
        tensors.append(_numbers("w_zero", kind, scales))
        given.append("w_zero")
    nodes = [
        helper.make_node("DequantizeLinear", given, ["w"], name="dequantise", **more),
        helper.make_node("MatMul", ["x", "w"], ["y"], name="product"),
    ]
    return _model(nodes, tensors, [rows], [columns])


def _moved(through: str) -> onnx.ModelProto:
    """A product with stored numbers that are moved before or after they are floats."""
    tensors = [_numbers("w_stored", T.INT8, (6, 8)), _floats("w_scale", 6), _numbers("w_zero", T.INT8, (6,))]
    given = ["w_scale", "w_zero"]
    real = helper.make_node("DequantizeLinear", ["w_stored", *given], ["w"], axis=0)
    steps = {
        "transposed after": [real, helper.make_node("Transpose", ["w"], ["m"], perm=[1, 0])],
        "transposed before": [
            helper.make_node("Transpose", ["w_stored"], ["t"], perm=[1, 0]),
            helper.make_node("DequantizeLinear", ["t", *given], ["m"], axis=1),
        ],
        "reshaped after": [real, helper.make_node("Reshape", ["w", "shape"], ["m"])],
        "cut after": [real, helper.make_node("Slice", ["w", "start", "end"], ["m"])],
    }[through]
    tensors += [
        numpy_helper.from_array(np.array(numbers, np.int64), name)
        for name, numbers in (("shape", [8, 6]), ("start", [0, 0]), ("end", [8, 6]))
    ]
    rows = 6 if through == "cut after" else 8
    nodes = [*steps, helper.make_node("MatMul", ["x", "m"], ["y"])]
    return _model(nodes, tensors, [rows], [None])


def _conv(channels: int) -> onnx.ModelProto:
    """What `quantize_static` writes: int8 weights and an int32 bias, a scale a channel."""
    scale = _floats("w_scale", channels)
    bias = helper.make_tensor("b_stored", T.INT32, [channels], RANDOM.integers(-500, 500, channels).tolist())
    tensors = [
        numpy_helper.from_array(np.float32(0.02), "x_scale"),
        numpy_helper.from_array(np.uint8(128), "x_zero"),
        _numbers("w_stored", T.INT8, (channels, 3, 3, 3)),
        scale,
        numpy_helper.from_array(np.zeros(channels, np.int8), "w_zero"),
        bias,
        numpy_helper.from_array(numpy_helper.to_array(scale) * np.float32(0.02), "b_scale"),
        numpy_helper.from_array(np.zeros(channels, np.int32), "b_zero"),
        numpy_helper.from_array(np.float32(0.05), "y_scale"),
        numpy_helper.from_array(np.uint8(0), "y_zero"),
    ]
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "x_scale", "x_zero"], ["xq"]),
        helper.make_node("DequantizeLinear", ["xq", "x_scale", "x_zero"], ["xd"]),
        helper.make_node("DequantizeLinear", ["w_stored", "w_scale", "w_zero"], ["w"], axis=0),
        helper.make_node("DequantizeLinear", ["b_stored", "b_scale", "b_zero"], ["b"], axis=0),
        helper.make_node("Conv", ["xd", "w", "b"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("QuantizeLinear", ["r", "y_scale", "y_zero"], ["rq"]),
        helper.make_node("DequantizeLinear", ["rq", "y_scale", "y_zero"], ["y"]),
    ]
    return _model(nodes, tensors, [3, 8, 8], [channels, 8, 8], opset=13)


def _model(
    nodes: list[onnx.NodeProto],
    tensors: list[onnx.TensorProto],
    given: list[int],
    returned: list[int | None],
    opset: int = 21,
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", T.FLOAT, ["n", *given])],
        [helper.make_tensor_value_info("y", T.FLOAT, ["n", *returned])],
        tensors,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


MODELS = {
    **{
        f"{T.DataType.Name(kind)}, a scale a {how}": lambda kind=kind, how=how: _matmul(kind, how)
        for kind in STORED
        for how in ("tensor", "axis", "blocked")
    },
    "many numbers": lambda: _matmul(T.INT8, "axis", 80, 60),
    "many floats of eight bits": lambda: _matmul(T.FLOAT8E4M3FN, "axis", 80, 60),
    "many numbers of four bits": lambda: _matmul(T.INT4, "blocked", 80, 60),
    **{
        t: lambda t=t: _moved(t)
        for t in ("transposed after", "transposed before", "reshaped after", "cut after")
    },
    "a convolution": lambda: _conv(4),
    "a large convolution": lambda: _conv(160),
}


def _run(path: Path, level: onnxruntime.GraphOptimizationLevel, x: np.ndarray) -> np.ndarray:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level, options.log_severity_level = level, 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {session.get_inputs()[0].name: x})[0])


def _write(name: str, folder: Path) -> tuple[Path, np.ndarray]:
    model = MODELS[name]()
    source = folder / "source.onnx"
    onnx.save(model, source)
    sizes = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim[1:]]
    return source, RANDOM.standard_normal((2, *sizes)).astype(np.float32)


def _stored_kinds(path: Path) -> set[tuple[int, int]]:
    """(element type, elements) of each operand that a DequantizeLinear has from the file."""
    graph = onnx.load(path).graph
    stored = {t.name: t for t in graph.initializer}
    moved = {n.output[0]: n.input[0] for n in graph.node if n.op_type in ("Transpose", "Reshape")}
    names = [n.input[0] for n in graph.node if n.op_type == "DequantizeLinear"]
    names = [moved.get(name, name) for name in names]
    return {(stored[n].data_type, int(np.prod(stored[n].dims))) for n in names if n in stored}


@pytest.mark.parametrize("name", MODELS)
def test_stored_numbers_stay_and_give_the_same_at_every_level(name, tmp_path):
    source, x = _write(name, tmp_path)
    graph = regraft.load(source, {"x": x})
    written = tmp_path / "written.onnx"
    regraft.save(regraft.rewrite(graph).graph, written)
    assert _stored_kinds(written) == _stored_kinds(source)
    assert written.stat().st_size < source.stat().st_size * 1.1 + 2000
    for level in LEVELS:
        assert np.array_equal(_run(written, level, x), _run(source, level, x)), level


@pytest.mark.parametrize("name", MODELS)
def test_they_become_floats_where_somebody_asks(name, tmp_path):
    source, x = _write(name, tmp_path)
    graph = regraft.load(source, {"x": x})
    rewritten = regraft.rewrite(graph, dequantise=True)
    assert {c.code for c in rewritten.changes} >= {"DQ101"}
    written = tmp_path / "written.onnx"
    regraft.save(rewritten.graph, written)
    assert not _stored_kinds(written)
    plain = LEVELS[0]
    assert np.allclose(_run(written, plain, x), _run(source, plain, x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", MODELS)
def test_mindspore_computes_the_same(name, tmp_path):
    source, x = _write(name, tmp_path)
    graph = regraft.load(source, {"x": x})
    regraft.save(regraft.rewrite(graph).graph, tmp_path / "net", "mindspore")
    report = regraft.verify(graph, tmp_path / "net")
    assert report.passed, report.summary
