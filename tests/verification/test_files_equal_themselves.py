"""A file or net of any kind is equal to itself, whatever it computes: both sides have one judge."""

import json
from collections.abc import Mapping
from pathlib import Path

import mindspore as ms
import numpy as np
import onnx
import onnx.parser
import pytest
import torch
from torch import nn

import regraft
from regraft.ir import Builder, Graph, TensorType
from regraft.verification import verify

RANDOM = np.random.default_rng(0)


def floats(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def eights(*shape: int) -> np.ndarray:
    return RANDOM.integers(-127, 128, shape).astype(np.int8)


SCALES: dict[str, np.ndarray] = {"s": np.float32(0.05), "z": np.uint8(128)}

FILES: dict[str, tuple[str, Mapping[str, np.ndarray]]] = {
    "linear": (
        "(float[N,8] x) => (float[N,4] y) {a = MatMul(x, w) y = Relu(a)}",
        {"w": floats(8, 4)},
    ),
    "weights of 8 bits": (
        "(float[N,256] x) => (float[N,256] y) {w = DequantizeLinear<axis=1>(q, s, z) y = MatMul(x, w)}",
        {"q": eights(256, 256), "s": np.abs(floats(256)) * 0.05, "z": np.zeros(256, np.int8)},
    ),
    "quantised and back": (
        """(float[N,8] x) => (float[N,4] y) {a = QuantizeLinear(x, s, z) b = DequantizeLinear(a, s, z)
        w = DequantizeLinear(q, t, u) c = MatMul(b, w) d = QuantizeLinear(c, s, z)
        y = DequantizeLinear(d, s, z)}""",
        {"q": eights(8, 4), "t": np.float32(0.02), "u": np.int8(0), **SCALES},
    ),
    "quantised convolution": (
        """(float[N,3,8,8] x) => (float[N,4,6,6] y) {a = QuantizeLinear(x, s, z)
        b = DequantizeLinear(a, s, z) w = DequantizeLinear<axis=0>(q, t, u) c = Conv(b, w) r = Relu(c)
        d = QuantizeLinear(r, s, z) y = DequantizeLinear(d, s, z)}""",
        {"q": eights(4, 3, 3, 3), "t": np.abs(floats(4)) * 0.02, "u": np.zeros(4, np.int8), **SCALES},
    ),
    "operators on integers": (
        """(float[N,8] x) => (float[N,4] y) {a, s, z = DynamicQuantizeLinear(x) b = MatMulInteger(a, w)
        c = Cast<to=1>(b) y = Mul(c, s)}""",
        {"w": eights(8, 4)},
    ),
    "half": (
        "(float16[N,8] x) => (float16[N,4] y) {a = MatMul(x, w) y = Relu(a)}",
        {"w": floats(8, 4).astype(np.float16)},
    ),
    "fused wrongly by the runtime": (
        "(float[N,5,8] x) => (float[N,5,8] y) {a = Add(x, x) y = LayerNormalization<axis=-2>(a, s, b)}",
        {"s": floats(5, 8), "b": floats(5, 8)},
    ),
    "random": ("(float[N,8] x) => (float[N,8] y) {r = RandomNormalLike(x) y = Add(x, r)}", {}),
    "random with a seed": (
        "(float[N,8] x) => (float[N,8] y) {r = RandomUniformLike<seed=1.0>(x) y = Add(x, r)}",
        {},
    ),
    "NaN everywhere": (
        "(float[N,8] x) => (float[N,8] y) {a = Abs(x) b = Neg(a) c = Sub(b, one) y = Sqrt(c)}",
        {"one": np.float32(1)},
    ),
    "NaN here and there": ("(float[N,8] x) => (float[N,8] y) {a = Log(x) y = Relu(a)}", {}),
    "ties": (
        """(float[N,8] x) => (float[N,3] v, int64[N,3] i, int64[N] a) {e = Mul(x, zero) v, i = TopK(e, k)
        a = ArgMax<axis=1, keepdims=0>(e)}""",
        {"zero": np.float32(0), "k": np.array([3], np.int64)},
    ),
    "sizes that are fixed": ("(float[4,8] x) => (float[4,4] y) {y = MatMul(x, w)}", {"w": floats(8, 4)}),
    "integers": ("(int64[N] x) => (int64[N] y, bool[N] z) {y = Add(x, x) z = Greater(x, y)}", {}),
    "loop": (
        """(float[N,4] x) => (float[N,4] y) {t = Constant<value = int64 {3}>()
        c = Constant<value = bool {1}>() y = Loop<body = b (int64 i, bool ci, float[N,4] s) =>
        (bool co, float[N,4] so) {co = Identity(ci) so = Sin(s)}>(t, c, x)}""",
        {},
    ),
    "unique": ("(int64[N] x) => (int64[M] y, int64[N] at) {y, f, at, n = Unique<sorted=1>(x)}", {}),
    "places of a pool": (
        """(float[N,2,8,8] x) => (float[N,2,4,4] y, int64[N,2,4,4] i)
        {y, i = MaxPool<kernel_shape=[2,2], strides=[2,2]>(x)}""",
        {},
    ),
}


def write(text: str, values: Mapping[str, np.ndarray], path: Path) -> Path:
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> g {text}')
    for name, array in values.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(array), name))
    onnx.save(model, path)
    return path


@pytest.mark.parametrize("name", FILES)
def test_an_onnx_file(name: str, tmp_path: Path) -> None:
    path = write(*FILES[name], tmp_path / "net.onnx")
    report = regraft.verify(path, path)
    assert report.passed, report.render()
    assert report.verdict == "equal"


@pytest.mark.parametrize("name", ["weights of 8 bits", "fused wrongly by the runtime", "quantised and back"])
def test_an_onnx_file_and_its_copy_with_another_weight(name: str, tmp_path: Path) -> None:
    """What the runtime's fusions round hides no fault of the file."""
    text, values = FILES[name]
    path, same = write(text, values, tmp_path / "net.onnx"), write(text, values, tmp_path / "same.onnx")
    assert regraft.verify(path, same).passed
    changed = dict(values)
    which = next(n for n in ("q", "s") if n in values)
    changed[which] = values[which].copy()
    changed[which].reshape(-1)[:1] += np.asarray(3, values[which].dtype)
    report = regraft.verify(path, write(text, changed, tmp_path / "other.onnx"))
    assert report.verdict == "different", report.render()


def test_a_written_file_whose_fusion_rounds_to_8_bits_is_equal_with_a_note(tmp_path: Path) -> None:
    """The runtime fuses what was written, and not the source: the weights are dequantised otherwise there."""
    values = FILES["weights of 8 bits"][1]
    plain = """(float[N,256] x) => (float[N,256] y) {f = Cast<to=1>(q) w = Mul(f, s) y = MatMul(x, w)}"""
    source = write(plain, {n: values[n] for n in ("q", "s")}, tmp_path / "plain.onnx")
    report = regraft.verify(source, write(*FILES["weights of 8 bits"], tmp_path / "net.onnx"))
    assert report.passed, report.render()
    assert sum("default fusions round quantised values further" in note for note in report.notes) == 1


class Fewer(nn.Module):
    """Weights of 8 bits, dequantised in the model's own code."""

    def __init__(self) -> None:
        super().__init__()
        values = FILES["weights of 8 bits"][1]
        self.register_buffer("q", torch.from_numpy(values["q"]))
        self.register_buffer("s", torch.from_numpy(values["s"]))

    def forward(self, x):
        return x @ (self.q.float() * self.s)


@pytest.mark.parametrize("right", [True, False])
def test_a_torch_source_and_a_file_that_the_runtime_rounds_to_8_bits(tmp_path: Path, right: bool) -> None:
    text, values = FILES["weights of 8 bits"]
    scales = values["s"] if right else values["s"] * np.float32(1.01)  # as little as the fusion is off
    path = write(text, {**values, "s": scales}, tmp_path / "net.onnx")
    report = regraft.verify(regraft.load(Fewer(), (torch.randn(2, 256),)), path)
    assert report.passed is right, report.render()


class Stateful(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 8)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        return self.fc(x) + self.calls, self.calls


class Undefined(nn.Module):
    def forward(self, x):
        return torch.sqrt(-x.abs() - 1), (x * 0).argmax(1)


class UndefinedCell(ms.nn.Cell):
    def construct(self, x):
        return ms.ops.relu(ms.ops.log(x)), ms.ops.sqrt(-ms.ops.abs(x) - 1)


@pytest.mark.parametrize("net", [Stateful, Undefined])
def test_a_torch_module_and_its_program(net: type[nn.Module], tmp_path: Path) -> None:
    x = torch.randn(2, 8)
    made = net().eval()
    report = regraft.verify(made, made, (x,))
    assert report.passed, report.render()
    torch.export.save(torch.export.export(made, (x,)), tmp_path / "net.pt2")
    report = regraft.verify(tmp_path / "net.pt2", tmp_path / "net.pt2")
    assert report.passed, report.render()


def test_a_cell_and_its_file(tmp_path: Path) -> None:
    """MindSpore's relu makes 0 of NaN: where the file may run, it runs on both sides."""
    x = ms.Tensor(floats(2, 8))
    net = UndefinedCell()
    assert regraft.verify(net, net, (x.asnumpy(),)).passed
    ms.export(net, x, file_name=str(tmp_path / "net"), file_format="MINDIR")
    for trust in (False, True):
        report = regraft.verify(tmp_path / "net.mindir", tmp_path / "net.mindir", trust=trust)
        assert report.passed, report.render()


def test_a_symbol_whose_output_is_one_number(tmp_path: Path) -> None:
    above = {"op": "_greater_scalar", "name": "y", "attrs": {"scalar": "-100"}, "inputs": [[0, 0, 0]]}
    nodes = [{"op": "null", "name": "data", "inputs": []}, above]
    symbol = {
        "nodes": nodes,
        "arg_nodes": [0],
        "heads": [[1, 0, 0]],
        "attrs": {"mxnet_version": ["int", 10600]},
    }
    path = tmp_path / "net-symbol.json"
    path.write_text(json.dumps(symbol))
    report = regraft.verify(path, path, ("2x3",))
    assert report.passed, report.render()
    copied = tmp_path / "copy-symbol.json"
    copied.write_text(path.read_text())
    assert regraft.verify(path, copied, ("2x3",)).verdict == "unproven"


class NoElements(nn.Module):
    def forward(self, x):
        return x.exp(), x[:0]


def test_outputs_without_elements(tmp_path: Path) -> None:
    """They prove nothing of two models, and are nothing by which one differs from itself."""
    x = torch.zeros(2, 0, 3)
    net = NoElements().eval()
    report = regraft.verify(net, net, (x,))
    assert report.verdict == "equal", report.render()
    assert any("are one model" in note for note in report.notes)
    assert regraft.verify(net, NoElements().eval(), (x,)).verdict == "unproven"


class WithoutDefault(ms.nn.Cell):
    def construct(self, x, y):
        return ms.ops.exp(x) if y is None else x + y


def test_a_cell_that_is_given_none_for_an_argument_without_a_default() -> None:
    net = WithoutDefault()
    report = regraft.verify(net, net, (ms.Tensor(floats(2, 3)), None))
    assert report.passed, report.render()


def test_a_graph_of_random_numbers_alone() -> None:
    graph = Graph()
    random = Builder(graph).op("RandomNormal", dtype=1, mean=0.0, scale=1.0, shape=[2, 3])
    graph.outputs = [("y", random)]
    report = verify(graph, graph)
    assert report.passed, report.render()


def test_a_graph() -> None:
    graph = Graph()
    x = graph.add_input("x", TensorType("float32", ("N", 3)))
    graph.outputs = [("y", x)]
    assert verify(graph, graph).passed
