"""Operators of ONNX Runtime's own domain, quantised and fused ones, against ONNX Runtime itself."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime import InferenceSession
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

import regraft
from regraft.backends.onnx_model import to_model
from regraft.ir import UnsupportedError

DRAW = np.random.default_rng(3)
BYTES = DRAW.integers(0, 256, (2, 4, 6, 6)).astype(np.uint8)
SIGNED = DRAW.integers(-128, 128, (2, 4, 6, 6)).astype(np.int8)
ROWS = DRAW.integers(0, 256, (3, 8)).astype(np.uint8)
WEIGHT = DRAW.integers(-128, 128, (5, 8)).astype(np.int8)
FLOATS = DRAW.standard_normal((2, 5, 8)).astype(np.float32)


def scale(number: float) -> np.ndarray:
    return np.float32(number)


def zero(number: int, dtype: type = np.uint8) -> np.ndarray:
    return np.array(number, dtype)


X = (scale(0.021), zero(120))
OUT = (scale(0.034), zero(131))
S = (scale(0.013), zero(-3, np.int8))
S_OUT = (scale(0.02), zero(5, np.int8))
PER_COLUMN = DRAW.uniform(0.01, 0.05, 5).astype(np.float32)

CASES: dict[str, tuple[str, list[np.ndarray | None], dict[str, object]]] = {
    "sum": ("QLinearAdd", [BYTES, *X, BYTES[:1, :, ::-1], scale(0.017), zero(99), *OUT], {}),
    "product": ("QLinearMul", [SIGNED, *S, SIGNED[..., ::-1], *S, *S_OUT], {}),
    "sigmoid": ("QLinearSigmoid", [BYTES, *X, scale(0.0039), zero(0)], {}),
    "leaky": ("QLinearLeakyRelu", [SIGNED, *S, *S_OUT], {"alpha": 0.2}),
    "softmax": ("QLinearSoftmax", [ROWS, *X, scale(0.0039), zero(0)], {"axis": -1, "opset": 13}),
    "mean of channels": ("QLinearGlobalAveragePool", [BYTES, *X, *OUT], {}),
    "mean of windows": (
        "QLinearAveragePool",
        [BYTES, *X, *OUT],
        {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1], "count_include_pad": 1},
    ),
    "row": ("QLinearConcat", [*OUT, BYTES, *X, BYTES, scale(0.05), zero(7)], {"axis": 1}),
    "choice": ("QLinearWhere", [BYTES > 99, BYTES, *X, BYTES[:, ::-1], scale(0.05), zero(7), *OUT], {}),
    "product of matrices": (
        "QGemm",
        [ROWS, *X, WEIGHT, PER_COLUMN, np.zeros(5, np.int8), np.arange(5, dtype=np.int32), *OUT],
        {"transB": 1, "alpha": 1.5},
    ),
    "product as floats": ("QGemm", [ROWS, *X, WEIGHT, scale(0.03), zero(0, np.int8)], {"transB": 1}),
    "integers to floats": (
        "MatMulIntegerToFloat",
        [ROWS, WEIGHT.T.copy(), scale(0.02), PER_COLUMN, zero(120), np.zeros(5, np.int8), PER_COLUMN],
        {},
    ),
    "quantised by its range": (
        "DynamicQuantizeMatMul",
        [FLOATS, WEIGHT.T.copy(), PER_COLUMN, np.zeros(5, np.int8), PER_COLUMN],
        {},
    ),
    "causal attention": (
        "Attention",
        [FLOATS, DRAW.standard_normal((8, 24)).astype(np.float32), np.ones(24, np.float32)],
        {"num_heads": 2, "unidirectional": 1},
    ),
    "attention of lengths": (
        "Attention",
        [
            FLOATS,
            DRAW.standard_normal((8, 24)).astype(np.float32),
            np.ones(24, np.float32),
            np.array([5, 3], np.int32),
        ],
        {"num_heads": 2},
    ),
    "causal attention of three": (
        "MultiHeadAttention",
        [FLOATS, FLOATS[:, ::-1].copy(), FLOATS],
        {"num_heads": 2, "unidirectional": 1},
    ),
    "later keys hidden from more queries": (
        "MultiHeadAttention",
        [FLOATS, FLOATS[:, :3].copy(), FLOATS[:, 2:].copy()],
        {"num_heads": 2, "unidirectional": 1},
    ),
    "a vector transposed": ("FusedMatMul", [FLOATS, PER_COLUMN], {"transA": 1, "transB": 1, "alpha": 0.5}),
    "rotation from a place": (
        "RotaryEmbedding",
        [
            FLOATS,
            np.array([2], np.int64),
            DRAW.standard_normal((9, 2)).astype(np.float32),
            DRAW.standard_normal((9, 2)).astype(np.float32),
        ],
        {"num_heads": 2},
    ),
}


def made(operator: str, operands: list[np.ndarray | None], attributes: dict[str, object]) -> onnx.ModelProto:
    """A model of one operator on inputs; those of one element, and weights, are initializers."""
    data = [
        at for at, each in enumerate(operands) if each is not None and each.ndim > 1 and each is not WEIGHT
    ]
    names = ["" if each is None else f"v{at}" for at, each in enumerate(operands)]
    info = [
        helper.make_tensor_value_info(
            names[at], helper.np_dtype_to_tensor_dtype(operands[at].dtype), operands[at].shape
        )
        for at in data
    ]
    stored = [
        numpy_helper.from_array(np.asarray(each), names[at])
        for at, each in enumerate(operands)
        if each is not None and at not in data
    ]
    node = helper.make_node(operator, names, ["y"], "node", domain="com.microsoft", **attributes)
    out = helper.make_empty_tensor_value_info("y")
    graph = helper.make_graph([node], "net", info, [out], stored)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


@pytest.mark.parametrize("name", CASES)
def test_is_what_onnx_runtime_computes(name: str) -> None:
    operator, operands, attributes = CASES[name]
    proto = made(operator, operands, attributes)
    given = {info.name: operands[int(info.name[1:])] for info in proto.graph.input}
    session = InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    wanted = session.run(None, given)[0]
    assert np.unique(wanted).size > 4
    written = to_model(regraft.load(proto, given))
    assert not any(node.domain == "com.microsoft" for node in written.graph.node)
    session = InferenceSession(written.SerializeToString(), providers=["CPUExecutionProvider"])
    found = session.run(None, dict(zip([i.name for i in session.get_inputs()], given.values(), strict=True)))[
        0
    ]
    assert found.dtype == wanted.dtype
    if wanted.dtype == np.float32:
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=2e-6)
    else:
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    ("operator", "operands", "attributes", "said"),
    [
        ("QLinearSoftmax", [BYTES, *X, *OUT], {"axis": 1, "opset": 11}, "the last axis"),
        (
            "MultiHeadAttention",
            [FLOATS[:, :3], FLOATS, FLOATS],
            {"num_heads": 2, "unidirectional": 1},
            "as many keys as queries",
        ),
        ("BeamSearch", [ROWS.astype(np.int32)], {}, r"1 use.*\n.*`decoder` attribute"),
        ("QMoE", [FLOATS], {}, r"1 use.*\n.*export the experts"),
    ],
)
def test_other_forms_are_refused(
    operator: str, operands: list[np.ndarray | None], attributes: dict[str, object], said: str
) -> None:
    with pytest.raises(UnsupportedError, match=f"{operator}.*{said}"):
        regraft.load(made(operator, operands, attributes))


def test_a_net_that_quantize_static_wrote_is_the_same_in_mindspore(tmp_path: Path) -> None:
    plain, path = tmp_path / "plain.onnx", tmp_path / "net.onnx"
    onnx.save(_net(), plain)
    logging.disable(logging.WARNING)
    try:
        quantize_static(
            plain,
            path,
            Batches(),
            quant_format=QuantFormat.QOperator,
            activation_type=QuantType.QInt8,
            per_channel=True,
        )
    finally:
        logging.disable(logging.NOTSET)
    assert {n.domain for n in onnx.load(path).graph.node} == {"", "com.microsoft"}
    graph = regraft.load(path)
    for target in ("onnx", "mindspore"):
        out = tmp_path / ("out.onnx" if target == "onnx" else "out")
        regraft.save(regraft.rewrite(graph).graph, out, to=target)
        assert regraft.verify(graph, out).passed


class Batches(CalibrationDataReader):
    """Two draws for the input."""

    def __init__(self) -> None:
        self.left = [DRAW.standard_normal((1, 3, 8, 8)).astype(np.float32) for _ in range(2)]

    def get_next(self) -> dict[str, np.ndarray] | None:
        return {"x": self.left.pop()} if self.left else None


def _net() -> onnx.ModelProto:
    """A residual block and a dense layer."""
    shapes = {"w0": (4, 3, 3, 3), "b0": (4,), "w1": (4, 4, 1, 1), "b1": (4,), "w2": (3, 4), "b2": (3,)}
    stored = [
        numpy_helper.from_array((DRAW.standard_normal(s) * 0.3).astype(np.float32), n)
        for n, s in shapes.items()
    ]
    make = helper.make_node
    nodes = [
        make("Conv", ["x", "w0", "b0"], ["a"], "c0", pads=[1, 1, 1, 1]),
        make("Relu", ["a"], ["b"], "r"),
        make("Conv", ["b", "w1", "b1"], ["c"], "c1"),
        make("Add", ["b", "c"], ["d"], "sum"),
        make("GlobalAveragePool", ["d"], ["e"], "mean"),
        make("Flatten", ["e"], ["f"], "flat"),
        make("Gemm", ["f", "w2", "b2"], ["y"], "fc", transB=1),
    ]
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "net",
        [info("x", TensorProto.FLOAT, [1, 3, 8, 8])],
        [info("y", TensorProto.FLOAT, [1, 3])],
        stored,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
