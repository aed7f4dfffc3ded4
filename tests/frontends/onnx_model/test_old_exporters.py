"""Files of exporters of opsets 1 to 9: attributes that became operands, and what their authors meant."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto as T
from onnx import helper, numpy_helper

import regraft
from regraft.ir import ModelError, UnsupportedError

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((2, 4, 6, 6)).astype(np.float32)
FLAT = X.reshape(2, -1)
C = (RANDOM.random(4) + 0.5).astype(np.float32)
SHIFT, WEIGHT = (RANDOM.random(shape).astype(np.float32) for shape in (3, (3, 144)))
OF_CHANNELS, OF_ELEMENTS = (
    {name: (1 + 0.2 * RANDOM.random(shape)).astype(np.float32) for name in "abmv"} for shape in (4, (4, 6, 6))
)
STATISTICS = ["x", "a", "b", "m", "v"]
SCALES = np.array([1, 1, 2, 2], np.float32)


def _channels(values: np.ndarray) -> np.ndarray:
    return values.reshape(-1, 1, 1)


def _normalised(of: dict[str, np.ndarray]) -> np.ndarray:
    a, b, m, v = (_channels(value) if value.ndim == 1 else value for value in of.values())
    return (X - m) / np.sqrt(v + 1e-5) * a + b


def _by_mean(axes: tuple[int, ...]) -> np.ndarray:
    return (X - X.mean(axes, keepdims=True)) / X.std(axes, keepdims=True)


def _padded(**how: object) -> np.ndarray:
    return np.pad(X, ((0, 0), (0, 0), (1, 3), (2, 4)), **how)


def _node(kind: str, *names: str, **attributes: object) -> onnx.NodeProto:
    return helper.make_node(kind, ["x", *names], ["y"], name="node", **attributes)


PADS = [0, 0, 1, 2, 0, 0, 3, 4]
BIG = X.repeat(2, 2).repeat(2, 3)
ROWS: dict[str, tuple[int, onnx.NodeProto, dict[str, np.ndarray], np.ndarray]] = {
    "a sum from an axis on": (6, _node("Add", "c", broadcast=1, axis=1), {"c": C}, X + _channels(C)),
    "a sum in place": (
        1,
        _node("Add", "c", broadcast=1, axis=1, consumed_inputs=[0, 0]),
        {"c": C},
        X + _channels(C),
    ),
    "a product from the middle on": (
        6,
        _node("Mul", "c", broadcast=1, axis=1),
        {"c": OF_ELEMENTS["a"][:, :, 0]},
        X * OF_ELEMENTS["a"][:, :, :1],
    ),
    "a power": (6, _node("Pow", "c", broadcast=1), {"c": np.array([2], np.float32)}, X**2),
    "statistics in place": (
        1,
        _node("BatchNormalization", *STATISTICS[1:], is_test=1, consumed_inputs=[0, 0, 0, 1, 1], spatial=1),
        OF_CHANNELS,
        _normalised(OF_CHANNELS),
    ),
    "statistics of a test": (
        6,
        _node("BatchNormalization", *STATISTICS[1:], is_test=1),
        OF_CHANNELS,
        _normalised(OF_CHANNELS),
    ),
    "statistics of channels, said to be of elements": (
        7,
        _node("BatchNormalization", *STATISTICS[1:], spatial=0),
        OF_CHANNELS,
        _normalised(OF_CHANNELS),
    ),
    "statistics of elements": (
        7,
        _node("BatchNormalization", *STATISTICS[1:], spatial=0),
        OF_ELEMENTS,
        _normalised(OF_ELEMENTS),
    ),
    "a slope of channels in opset 6": (
        6,
        _node("PRelu", "c"),
        {"c": C},
        np.where(X < 0, X * _channels(C), X),
    ),
    "a slope with axes": (
        7,
        _node("PRelu", "c"),
        {"c": C.reshape(4, 1, 1)},
        np.where(X < 0, X * _channels(C), X),
    ),
    "dropout of a test": (1, _node("Dropout", is_test=1, ratio=0.3, consumed_inputs=[0]), {}, X),
    "paddings": (
        1,
        _node("Pad", paddings=PADS, mode="constant", value=2.0),
        {},
        _padded(constant_values=2),
    ),
    "pads that reflect": (2, _node("Pad", pads=PADS, mode="reflect"), {}, _padded(mode="reflect")),
    "a height and a width": (1, _node("Upsample", height_scale=2.0, width_scale=2.0), {}, BIG),
    "scales too early": (6, _node("Upsample", scales=SCALES.tolist()), {}, BIG),
    "scales": (7, _node("Upsample", scales=SCALES.tolist()), {}, BIG),
    "scales as an operand": (9, _node("Upsample", "s"), {"s": SCALES}, BIG),
    "a shape": (1, _node("Reshape", shape=[0, -1], consumed_inputs=[0]), {}, FLAT),
    "an element type as a word": (1, _node("Cast", to="FLOAT"), {}, X),
    "bounds": (1, _node("Clip", min=-0.5, max=0.5, consumed_inputs=[0]), {}, X.clip(-0.5, 0.5)),
    "a range": (1, _node("Slice", starts=[1, -3], ends=[3, 100], axes=[1, 2]), {}, X[:, 1:3, -3:]),
    "a range without elements": (1, _node("Slice", starts=[3], ends=[1], axes=[1]), {}, X[:, 3:1]),
    "tiles": (
        1,
        _node("Tile", "t", "a"),
        {"t": np.array(2, np.float32), "a": np.array(1, np.float32)},
        np.concatenate([X, X], 1),
    ),
    "a scaled image": (
        1,
        _node("ImageScaler", scale=2.0, bias=[1.0, 2.0, 3.0, 4.0]),
        {},
        2 * X + _channels(np.arange(1, 5, dtype=np.float32)),
    ),
    "a border": (1, _node("Crop", border=[1, 2, 3, 0]), {}, X[:, :, 2:, 1:-3]),
    "a part of an image": (1, _node("Crop", border=[1, 2, 0, 0], scale=[3, 4]), {}, X[:, :, 2:5, 1:5]),
    "a multiple and a number": (1, _node("Affine", alpha=2.0, beta=1.0), {}, 2 * X + 1),
    "a multiple": (1, _node("Scale", scale=2.0), {}, 2 * X),
    "a scaled tangent": (1, _node("ScaledTanh", alpha=2.0, beta=0.5), {}, 2 * np.tanh(0.5 * X)),
    "a soft ramp": (
        1,
        _node("ParametricSoftplus", alpha=2.0, beta=0.5),
        {},
        2 * np.log1p(np.exp(0.5 * X)),
    ),
    "by the mean of a channel": (1, _node("MeanVarianceNormalization"), {}, _by_mean((2, 3))),
    "by the mean of an image": (
        1,
        _node("MeanVarianceNormalization", across_channels=1),
        {},
        _by_mean((1, 2, 3)),
    ),
}


def _model(
    opset: int, nodes: list[onnx.NodeProto], tensors: dict[str, np.ndarray], x: np.ndarray, name: str = "g"
) -> onnx.ModelProto:
    stored = [numpy_helper.from_array(np.asarray(value), key) for key, value in tensors.items()]
    given = [helper.make_tensor_value_info("x", T.FLOAT, x.shape)]
    given += [helper.make_tensor_value_info(t.name, t.data_type, list(t.dims)) for t in stored]
    graph = helper.make_graph(nodes, name, given, [helper.make_tensor_value_info("y", T.FLOAT, None)], stored)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    model.ir_version = 3
    return model


def _run(model: onnx.ModelProto, x: np.ndarray, folder) -> np.ndarray:
    path = folder / "net.onnx"
    regraft.save(regraft.rewrite(regraft.load(model, {"x": x})).graph, path)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {"x": x})[0])


@pytest.mark.parametrize("name", ROWS)
def test_an_operator_means_what_it_meant(name, tmp_path):
    opset, node, tensors, expected = ROWS[name]
    found = _run(_model(opset, [node], tensors, X), X, tmp_path)
    assert found.shape == expected.shape
    assert np.allclose(found, expected, atol=1e-5)


def test_the_bias_of_a_product_spreads(tmp_path):
    nodes = [
        helper.make_node("Flatten", ["x"], ["f"]),
        helper.make_node("Gemm", ["f", "w", "b"], ["y"], transB=1, broadcast=1, alpha=0.5, beta=2.0),
    ]
    found = _run(_model(6, nodes, {"w": WEIGHT, "b": SHIFT}, X), X, tmp_path)
    assert np.allclose(found, 0.5 * FLAT @ WEIGHT.T + 2 * SHIFT, atol=1e-4)


def test_a_file_of_mxnet_with_spatial_0_is_compared_as_it_is_meant(tmp_path):
    node = _node("BatchNormalization", *STATISTICS[1:], spatial=0)
    onnx.save(_model(7, [node], OF_CHANNELS, X, "mxnet_converted_model"), tmp_path / "source.onnx")
    graph = regraft.load(tmp_path / "source.onnx")
    (note,) = [note for note in graph.origin.notes if "spatial=0" in note]
    assert note.endswith("per channel: 1, the first is `node`")
    regraft.save(regraft.rewrite(graph).graph, tmp_path / "net", "mindspore")
    assert regraft.verify(graph, tmp_path / "net").passed


@pytest.mark.parametrize(
    ("graph", "width", "said"),
    [
        ("g", 6, r"spreads over \[2, 4, 6, 6\], got \[4\] -"),
        ("mxnet_converted_model", 6, "as MXNet's exporter writes it"),
        ("mxnet_converted_model", 4, "as MXNet's exporter writes it"),
    ],
)
def test_a_slope_of_channels_without_axes_is_refused(graph, width, said):
    x = X[..., :width].copy()
    with pytest.raises(UnsupportedError, match=said) as caught:
        regraft.load(_model(7, [_node("PRelu", "c")], {"c": C}, x, graph), {"x": x})
    assert "node `node`" in caught.value.place
    assert "[4, 1, 1]: set the `dims` of `c`" in caught.value.hint


def test_a_slope_of_the_last_axis_stays_one(tmp_path):
    x = X[..., :4].copy()
    found = _run(_model(7, [_node("PRelu", "c")], {"c": C}, x), x, tmp_path)
    assert np.allclose(found, np.where(x < 0, x * C, x), atol=1e-6)


def _reshaping(made: str) -> onnx.ModelProto:
    """A Reshape and an Expand whose shapes are int32: stored, made by a node, or computed."""
    shape, wide = np.array([2, -1], np.int32), np.array([3, 2, 144], np.int32)
    stored = {"shape": shape, "wide": wide}
    nodes = [
        helper.make_node("Reshape", ["x", "shape"], ["r"]),
        helper.make_node("Expand", ["r", "wide"], ["y"]),
    ]
    if made == "by a node":
        nodes[:0] = [
            helper.make_node("Constant", [], [n], value=numpy_helper.from_array(v)) for n, v in stored.items()
        ]
        stored = {}
    elif made == "by arithmetic":
        nodes[:0] = [
            helper.make_node("Cast", ["shape64"], ["shape"], to=T.INT32),
            helper.make_node("Cast", ["wide64"], ["wide"], to=T.INT32),
        ]
        stored = {f"{n}64": v.astype(np.int64) for n, v in stored.items()}
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", T.FLOAT, X.shape)],
        [helper.make_tensor_value_info("y", T.FLOAT, None)],
        [numpy_helper.from_array(v, n) for n, v in stored.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 9)], ir_version=4)


@pytest.mark.parametrize("made", ["as weights", "by a node", "by arithmetic"])
def test_shapes_of_int32_are_read_as_int64(made: str, tmp_path: Path) -> None:
    model = _reshaping(made)
    with pytest.raises(Exception, match=r"int32"):
        onnxruntime.InferenceSession(model.SerializeToString())
    graph = regraft.load(model, [X])
    assert any(
        "int32 is read as int64" in str(note) and ": 2, the first" in str(note) for note in graph.origin.notes
    )
    regraft.save(regraft.rewrite(graph), tmp_path / "a.onnx")
    assert regraft.verify(graph, tmp_path / "a.onnx").passed
    session = onnxruntime.InferenceSession(tmp_path / "a.onnx")
    np.testing.assert_array_equal(
        session.run(None, {"x": X})[0], np.broadcast_to(X.reshape(2, 144), (3, 2, 144))
    )


def test_an_opset_that_onnx_runtime_has_not_is_named(tmp_path: Path) -> None:
    node = helper.make_node("Add", ["x", "c"], ["y"], broadcast=1, axis=1)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", T.FLOAT, X.shape)],
        [helper.make_tensor_value_info("y", T.FLOAT, X.shape)],
        [numpy_helper.from_array(C, "c")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 6)], ir_version=3)
    loaded = regraft.load(model, [X])
    regraft.save(loaded, tmp_path / "a.onnx")
    with pytest.raises(ModelError, match="E702") as error:
        regraft.verify(loaded, tmp_path / "a.onnx")
    assert "opset 7 or later, and the model's opset is 6" in error.value.hint
    session = onnxruntime.InferenceSession(tmp_path / "a.onnx")
    np.testing.assert_allclose(session.run(None, {"x": X})[0], X + _channels(C), rtol=1e-6)
