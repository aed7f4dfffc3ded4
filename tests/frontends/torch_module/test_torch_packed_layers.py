"""Layers of torch.ao that compute on packed integers, of the eager and of the FX mode."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from torch import Tensor, nn
from torch.ao import quantization
from torch.ao.quantization import quantize_fx

import regraft
from regraft.api.targets import rewrite_file
from regraft.ir import ModelError, TensorData, UnsupportedError
from regraft.process.messages import say_lines

from ...quantised_engines import quantising_for

pytestmark = pytest.mark.filterwarnings("ignore:.*quantiz")

IMAGES = torch.randn(2, 4, 10, 10, generator=torch.Generator().manual_seed(0))
ROWS = torch.randn(3, 16, generator=torch.Generator().manual_seed(1))
STEPS = torch.randn(4, 2, 8, generator=torch.Generator().manual_seed(2))
IDS = torch.tensor([[1, 5, 19, 0], [3, 3, 7, 2]])


@pytest.fixture(autouse=True)
def engine() -> Iterator[None]:
    """Quantise for one kind of kernels, which every processor has."""
    with quantising_for("fbgemm"):
        yield


class Stubs(nn.Module):
    """A body between a QuantStub and a DeQuantStub."""

    def __init__(self, *body: nn.Module) -> None:
        super().__init__()
        self.quant, self.dequant = quantization.QuantStub(), quantization.DeQuantStub()
        self.body = nn.Sequential(*body)

    def forward(self, x: Tensor) -> Tensor:
        return self.dequant(self.body(self.quant(x)))


class Block(nn.Module):
    """Sums, products and joins of quantised tensors, and functions that keep or choose their scale."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(4, 4, 3, padding=1), nn.Conv2d(4, 4, 1)
        self.f = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        y, z = self.a(x), torch.relu(self.b(x))
        w = torch.cat([y + z, y], 1).chunk(2, 1)[0]
        w = nn.functional.hardtanh(w, -1, 1) * torch.sigmoid(z)
        w = nn.functional.avg_pool2d(nn.functional.interpolate(w, scale_factor=2.0), 2, padding=1)
        return self.f(nn.functional.adaptive_avg_pool2d(w, 1).flatten(1))


class Recurrent(nn.Module):
    """A recurrent layer or cell, of which the output is returned."""

    def __init__(self, kind: Callable[..., nn.Module], **arguments: object) -> None:
        super().__init__()
        self.layer = kind(8, 6, **arguments)

    def forward(self, x: Tensor) -> Tensor:
        found = self.layer(x)
        return found[0] if isinstance(found, tuple) else found


def eager(*body: nn.Module, x: Tensor = IMAGES) -> nn.Module:
    """Return a body, quantised in eager mode on some values of its input."""
    net = Stubs(*body).eval()
    net.qconfig = quantization.get_default_qconfig("fbgemm")  # type: ignore[assignment]
    quantization.prepare(net, inplace=True)
    net(x)
    return quantization.convert(net, inplace=True)


def by_graph(net: nn.Module, x: Tensor = IMAGES, reference: bool = False) -> nn.Module:
    """Return a net, quantised in FX mode."""
    mapping = quantization.get_default_qconfig_mapping("fbgemm")
    prepared = quantize_fx.prepare_fx(net.eval(), mapping, (x,))
    prepared(x)
    return (quantize_fx.convert_to_reference_fx if reference else quantize_fx.convert_fx)(prepared)


def dynamic(net: nn.Module, dtype: torch.dtype = torch.qint8) -> nn.Module:
    """Return a net of which layers quantise their inputs in every run."""
    kinds = {nn.Linear, nn.LSTM, nn.GRU, nn.LSTMCell, nn.GRUCell, nn.RNNCell}
    return quantization.quantize_dynamic(net, kinds, dtype=dtype)


def table() -> nn.Module:
    """Return a table of embeddings with a scale for each row."""
    net = nn.Sequential(nn.Embedding(20, 8), nn.ReLU()).eval()
    net[0].qconfig = quantization.float_qparams_weight_only_qconfig  # type: ignore[assignment]
    return quantization.convert(quantization.prepare(net))


def norms() -> list[nn.Module]:
    """Return layers that torch quantises one by one."""
    first = [nn.Conv2d(4, 6, 3, padding=1, padding_mode="reflect"), nn.BatchNorm2d(6), nn.LeakyReLU(0.1)]
    second = [nn.GroupNorm(2, 6), nn.Hardswish(), nn.InstanceNorm2d(6, affine=True), nn.ELU()]
    return [*first, *second, nn.LayerNorm(10), nn.Dropout(), nn.MaxPool2d(2), nn.Hardsigmoid()]


NETS: dict[str, tuple[Callable[[], nn.Module], Tensor]] = {
    "convolutions": (lambda: eager(nn.Conv2d(4, 6, 3, groups=2), nn.ReLU6(), nn.Conv2d(6, 2, 1)), IMAGES),
    "one axis": (lambda: eager(nn.Conv1d(2, 4, 3), nn.ReLU(), nn.Tanh(), x=STEPS), STEPS),
    "products": (lambda: eager(nn.Linear(16, 12), nn.ReLU(), nn.Linear(12, 5), x=ROWS), ROWS),
    "norms": (lambda: eager(*norms()), IMAGES),
    "functions": (lambda: by_graph(Block()), IMAGES),
    "reference": (lambda: by_graph(nn.Sequential(nn.Linear(16, 4), nn.ReLU()), ROWS, True), ROWS),
    "dynamic": (lambda: dynamic(nn.Sequential(nn.Linear(16, 12), nn.ReLU(), nn.Linear(12, 5))), ROWS),
    "halves": (lambda: dynamic(nn.Sequential(nn.Linear(16, 5)), torch.float16), ROWS),
    "LSTM": (lambda: dynamic(Recurrent(nn.LSTM, bidirectional=True, batch_first=True)), STEPS),
    "GRU": (lambda: dynamic(Recurrent(nn.GRU, num_layers=2)), STEPS),
    "LSTM cell": (lambda: dynamic(Recurrent(nn.LSTMCell)), STEPS[0]),
    "GRU cell": (lambda: dynamic(Recurrent(nn.GRUCell)), STEPS[0]),
    "RNN cell": (lambda: dynamic(Recurrent(nn.RNNCell)), STEPS[0]),
    "table": (table, IDS),
}


@pytest.mark.parametrize("name", NETS)
def test_packed_layers_are_read(name: str, tmp_path: Path) -> None:
    make, x = NETS[name]
    net = make()
    wanted = net(x).detach().numpy()
    graph = regraft.load(net, (x,))
    path = tmp_path / "net.onnx"
    regraft.save(regraft.rewrite(graph), path)
    report = regraft.verify(graph, path)
    assert report.passed, report
    tensors = {t.data_type for t in onnx.load(path).graph.initializer if len(t.dims) > 1}
    kept = {"halves": "FLOAT16", "table": "UINT8", "reference": "FLOAT"}.get(name, "INT8")
    assert onnx.TensorProto.DataType.Value(kept) in tensors
    assert np.array_equal(net(x).detach().numpy(), wanted)  # and the model is as it was


@pytest.mark.parametrize("to", ["mindspore", "torch"])
def test_packed_layers_become_source(to: str, tmp_path: Path) -> None:
    graph = regraft.load(eager(nn.Conv2d(4, 6, 3), nn.ReLU(), nn.AvgPool2d(2), nn.Sigmoid()), (IMAGES,))
    for dequantise in (False, True):
        folder = tmp_path / f"net{dequantise:d}"
        regraft.save(regraft.rewrite(graph, dequantise=dequantise), folder, to=to)
        report = regraft.verify(graph, folder)
        assert report.passed, report


class Gated(nn.Module):
    """A squeeze and excitation, whose coarse codes no output shows, in sequences that FX mode calls apart."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(4, 6, 3), nn.Hardswish())
        self.gate = nn.Sequential(nn.Conv2d(6, 2, 1), nn.ReLU(), nn.Conv2d(2, 6, 1))
        self.f = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        gate = nn.functional.hardsigmoid(self.gate(nn.functional.adaptive_avg_pool2d(x, 1)))
        return self.f((x * gate).mean([2, 3]))


@pytest.mark.parametrize("to", ["mindspore", "torch"])
def test_every_call_of_dequantised_layers_is_compared(to: str, tmp_path: Path) -> None:
    graph = regraft.load(by_graph(Gated()), (IMAGES,))
    rewritten = regraft.rewrite(graph, dequantise=True, to=to).graph
    regraft.save(rewritten, tmp_path / "net", to=to)
    report = regraft.verify(graph, tmp_path / "net")
    assert report.passed, report
    assert [row.call for row in report.modules if row.isolated_passed] == [row.call for row in report.modules]
    assert {"stem.1#1", "gate.2#1"} <= {row.call for row in report.modules}
    weight = next(p for p in rewritten.parameters() if p.name == "gate.2.weight")
    weight.data = weight.data.of(weight.data.numpy()[::-1].copy())
    regraft.save(rewritten, tmp_path / "wrong", to=to)
    report = regraft.verify(graph, tmp_path / "wrong")
    assert report.first_divergence == "gate.2#1"


def test_wrong_code_between_calls_is_found_where_no_output_shows_it(tmp_path: Path) -> None:
    graph = regraft.load(by_graph(Gated()), (IMAGES,))
    rewritten = regraft.rewrite(graph, to="torch").graph
    quantise = [n for n in rewritten.operators() if n.qualified_name == "QuantizeLinear"]
    pooled = next(n for n in quantise if n.types[0] is not None and n.types[0].shape == ("N", 6, 1, 1))
    rewritten.set_operand(pooled.key, 2, rewritten.add_constant(TensorData.of(np.uint8(1))))
    regraft.save(rewritten, tmp_path / "net", to="torch")
    report = regraft.verify(graph, tmp_path / "net")
    assert all(row.passed for row in report.outputs)
    assert report.first_divergence == "gate.0#1"
    assert "entered by other values" in next(r.reason for r in report.modules if r.call == "gate.0#1")


def test_dequantised_layers_own_weights_that_train(tmp_path: Path) -> None:
    net = dynamic(nn.Sequential(nn.Linear(16, 12), nn.ReLU(), nn.Linear(12, 5)))
    graph = regraft.rewrite(regraft.load(net, (ROWS,)), dequantise=True, to="torch").graph
    held = {parameter.name: parameter for parameter in graph.parameters()}
    assert set(held) == {"0.weight", "0.bias", "2.weight", "2.bias"}
    assert all(parameter.trainable and not parameter.is_buffer for parameter in held.values())
    assert np.array_equal(held["2.weight"].data.numpy(), net[2].weight().dequantize().numpy())


def test_dequantised_weights_of_a_step_are_those_of_all(tmp_path: Path) -> None:
    graph = regraft.load(dynamic(Recurrent(nn.LSTM)), (STEPS,))
    regraft.save(regraft.rewrite(graph, dequantise=True), tmp_path / "net.onnx")
    held = onnx.load(tmp_path / "net.onnx").graph.initializer
    assert [list(t.dims) for t in held].count([24, 6]) == 1
    report = regraft.verify(graph, tmp_path / "net.onnx")
    assert report.passed, report


def test_runs_beside_the_trace_follow_packed_layers_too() -> None:
    """A forward that may assign attributes runs once more, on the unpacked copy."""

    class Keeps(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.f = nn.Linear(16, 5)
            self.register_buffer("seen", torch.zeros(5))

        def forward(self, x: Tensor) -> Tensor:
            y = self.f(x)
            self.seen.data = y[0]
            return y + self.seen

    graph = regraft.load(dynamic(Keeps()), (ROWS,))
    assert any("`.data` as it is assigned" in note for note in graph.origin.notes)


def test_the_first_line_says_that_weights_are_floats(tmp_path: Path) -> None:
    graph = regraft.load(dynamic(nn.Sequential(nn.Linear(16, 12), nn.ReLU(), nn.Linear(12, 5))), (ROWS,))
    for dequantise, said in ((True, "equal with 2 quantised weights as floats: "), (False, "equal: ")):
        rewritten = regraft.rewrite(graph, dequantise=dequantise)
        _, report = rewrite_file(graph, rewritten, tmp_path / f"net{dequantise:d}.onnx")
        assert report is not None
        assert report.summary().startswith(said)
        assert ("2 个量化权重写成浮点数" in say_lines(report.summary(), "zh")) is dequantise
        assert report.to_json()["scope"] == said.removeprefix("equal").strip(": ")


@pytest.mark.parametrize("fault", ["scale", "one scale", "order", "zero point", "step"])
def test_a_wrong_number_of_a_packed_layer_is_found(fault: str, tmp_path: Path) -> None:
    graph = regraft.load(eager(nn.Conv2d(4, 6, 3), nn.ReLU(), nn.Conv2d(6, 4, 3)), (IMAGES,))
    path = tmp_path / "net.onnx"
    regraft.save(regraft.rewrite(graph), path)
    model = onnx.load(path)
    held = {t.name: t for t in model.graph.initializer}
    of_weight = [n for n in model.graph.node if n.op_type == "DequantizeLinear" and n.input[0] in held][-1]
    quantise = [n for n in model.graph.node if n.op_type == "QuantizeLinear"][1]
    node, at = {"zero point": (quantise, 2), "step": (quantise, 1)}.get(fault, (of_weight, 1))
    old = onnx.numpy_helper.to_array(held[node.input[at]])
    new = {
        "scale": old * 1.02,
        "one scale": old * np.where(np.arange(old.size) == 1, 1.02, 1.0),
        "order": old[::-1] if old.ndim else old,
        "zero point": old + 1,
        "step": old * 1.02,
    }[fault]
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array(new, old.dtype), "changed"))
    node.input[at] = "changed"
    onnx.save(model, path)
    assert not regraft.verify(graph, path).passed


def test_no_example_of_a_batch_is_judged_by_fusions_that_another_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kernels round otherwise by processor, so the fused runs are made to."""
    from regraft.verification.runners.onnx_runner import OnnxRunner
    from regraft.verification.runners.runs import Run

    run = OnnxRunner.run

    def run_coarsely(self: OnnxRunner, inputs: dict[str, np.ndarray], *, calls: bool = True) -> Run:
        found = run(self, inputs, calls=calls)
        coarse = self.fuses and len(inputs["x"]) == 5
        outputs = [(name, array + np.float32(0.5) if coarse else array) for name, array in found.outputs]
        return Run(outputs, found.calls, found.store)

    graph = regraft.load(eager(nn.Linear(16, 12), nn.ReLU(), nn.Linear(12, 5), x=ROWS), (ROWS,))
    regraft.save(regraft.rewrite(graph), tmp_path / "net.onnx")
    monkeypatch.setattr(OnnxRunner, "run", run_coarsely)
    report = regraft.verify(graph, tmp_path / "net.onnx")
    assert report.passed, report
    assert any("runs operators one by one" in note for note in report.notes)


def test_a_layer_without_a_form_is_named() -> None:
    class Packing(Recurrent):
        def forward(self, x: Tensor) -> Tensor:
            packed = nn.utils.rnn.pack_padded_sequence(x, torch.tensor([4, 2]))
            return nn.utils.rnn.pad_packed_sequence(self.layer(packed)[0])[0]

    with pytest.raises(
        ModelError, match=r"E104 .*no form of a recurrent layer on packed sequences in quantised"
    ) as found:
        regraft.load(dynamic(Packing(nn.LSTM)), (STEPS,))
    assert "as floats" in found.value.hint
    regraft.load(quantization.quantize_dynamic(Packing(nn.LSTM), {nn.Linear}), (STEPS,))  # as it says


@pytest.mark.parametrize("name", ["products", "dynamic"])
def test_archives_of_packed_layers_are_refused_with_advice(name: str, tmp_path: Path) -> None:
    make, x = NETS[name]
    torch.jit.save(torch.jit.trace(make(), (x,)), tmp_path / "net.pt")
    with pytest.raises(UnsupportedError, match=r"E203 .*as quantised layers do") as found:
        regraft.load(tmp_path / "net.pt", (x,))
    assert "the quantised model itself" in found.value.hint


class Saturating(nn.Module):
    """A layer behind a tanh, whose scale is fixed: its codes use the whole byte."""

    def __init__(self) -> None:
        super().__init__()
        self.f = nn.Linear(16, 12)
        with torch.no_grad():
            self.f.weight[:, :8] = 1.0  # pairs of large products

    def forward(self, x: Tensor) -> Tensor:
        return self.f(torch.tanh(x))


def test_sums_that_a_kernel_saturates_are_exact(tmp_path: Path) -> None:
    graph = regraft.load(by_graph(Saturating(), ROWS), (ROWS,))
    rewritten = regraft.rewrite(graph)
    regraft.save(rewritten, tmp_path / "net.onnx")
    report = regraft.verify(graph, tmp_path / "net.onnx")
    assert report.passed, report
    assert [row.call for row in report.modules if row.isolated_passed] == ["f#1"]
    held = next(p for p in rewritten.graph.parameters() if p.name == "f.weight")
    held.data = held.data.of(held.data.numpy()[:, ::-1].copy())
    regraft.save(rewritten, tmp_path / "wrong.onnx")
    assert not regraft.verify(graph, tmp_path / "wrong.onnx").passed


@pytest.mark.skipif("qnnpack" not in torch.backends.quantized.supported_engines, reason="no QNNPACK")
@pytest.mark.parametrize("inplace", [False, True])
def test_clamps_that_exchange_elements_are_corrected(inplace: bool, tmp_path: Path) -> None:
    torch.backends.quantized.engine = "qnnpack"
    graph = regraft.load(eager(nn.Conv2d(4, 6, 3), nn.ReLU6(inplace), nn.Conv2d(6, 2, 1)), (IMAGES,))
    regraft.save(regraft.rewrite(graph), tmp_path / "net", to="torch")
    report = regraft.verify(graph, tmp_path / "net")
    assert report.passed, report
    assert any("QNNPACK exchanges elements" in note for note in report.notes)


@pytest.mark.parametrize("agrees", [True, False])
def test_sums_are_corrected_where_kernel_and_reading_agree_on_small_inputs(
    agrees: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not every processor has a kernel that saturates, so the reading is made to differ."""
    from regraft.frontends.torch_module.quantised import exact_sums
    from regraft.frontends.torch_module.quantised.stand_in import Quantised

    weight = torch.quantize_per_tensor(torch.ones(3, 16), 1 / 127, 0, torch.qint8)
    x = torch.quantize_per_tensor(torch.ones(2, 16), 1 / 255, 0, torch.quint8)
    read = exact_sums.OPERATORS["linear"]

    def halved(x: Quantised, *others: object) -> Quantised:
        found = read(x, *others)
        differs = not agrees or int(x.codes.max()) > 127
        return Quantised(found.codes // 2, found.by) if differs else found

    monkeypatch.setitem(exact_sums.OPERATORS, "linear", halved)
    packed = torch.ops.quantized.linear_prepack(weight, None)
    kernel = torch.ops.quantized.linear(x, packed, 0.1, 0)
    seen: set[str] = set()
    with exact_sums.exact_sums(seen):
        found = torch.ops.quantized.linear(x, packed, 0.1, 0)
    assert torch.equal(found.int_repr(), kernel.int_repr()) is not agrees
    assert seen == ({"linear"} if agrees else set())


def test_a_kernel_that_does_not_compute_its_layer_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """fbgemm's of a transposed convolution of 2 x 2 is one on some processors; here the reading differs."""
    from regraft.frontends.torch_module.quantised import exact_sums
    from regraft.frontends.torch_module.quantised.stand_in import Quantised

    torch.backends.quantized.engine = "fbgemm"
    net = Stubs(nn.Conv2d(4, 6, 3), nn.ConvTranspose2d(6, 3, 3)).eval()
    net.qconfig = quantization.QConfig(  # type: ignore[assignment]
        quantization.default_observer, quantization.default_weight_observer
    )
    quantization.prepare(net, inplace=True)
    net(IMAGES)
    graph = regraft.load(quantization.convert(net, inplace=True), (IMAGES,))
    regraft.save(regraft.rewrite(graph), tmp_path / "net.onnx")
    assert regraft.verify(graph, tmp_path / "net.onnx").passed
    read = exact_sums.OPERATORS["conv_transpose2d"]

    def wrong(x: Quantised, *others: object) -> Quantised:
        found = read(x, *others)
        return Quantised(found.codes // 2, found.by)

    monkeypatch.setitem(exact_sums.OPERATORS, "conv_transpose2d", wrong)
    with pytest.raises(ModelError, match=r"E702 torch's kernel of `body.1` does not compute the layer"):
        regraft.verify(graph, tmp_path / "net.onnx")
