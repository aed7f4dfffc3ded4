"""Symbols written back: the same nodes, the same names, and MXNet's recorded outputs when read again."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from torch import nn

import regraft
from regraft.backends.mxnet_symbol import write
from regraft.backends.onnx_model import to_model
from regraft.formats.params_file import read_params
from regraft.frontends.mxnet_symbol import read
from regraft.frontends.mxnet_symbol.reader import read_symbol
from regraft.frontends.options import LoadOptions
from regraft.ir import BackendError, Builder, Graph, TensorType, UnsupportedError, UsageError
from regraft.passes.tie_weights import TieWeights

from ..corpora.mxnet.cases import Case, cases

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SAME_NODES = [
    "net/lenet",
    "net/mlp",
    "net/nin",
    "net/inception_bn",
    "net/resnet_v2_cifar",
    "zoo/mobilenet0.25",
]
LARGE = ("zoo/vgg11", "zoo/resnet18_v1", "zoo/gcv_resnest14", "zoo/gcv_googlenet")


def load(case: Case, folder: Path) -> Graph:
    return read(case.write(folder), list(case.inputs().items()), LoadOptions())


def run(graph: Graph, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(to_model(graph).SerializeToString())
    return session.run(None, {i.name: inputs[i.name] for i in session.get_inputs()})


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(c, id=i, marks=[pytest.mark.slow] if i in LARGE else [])
        for i, c in cases("models").items()
    ],
)
def test_outputs_are_mxnets_after_a_round_trip(case: Case, tmp_path: Path) -> None:
    graph = load(case, tmp_path)
    files = write(graph, tmp_path / "out")
    assert [f.name for f in files] == [f"{case.name}-symbol.json", f"{case.name}-0000.params", "renames.json"]
    inputs = graph.origin.inputs
    again = read(files[0], list(inputs.items()), LoadOptions())
    case.check(run(again, inputs))
    stored = {a.name: a.data.numpy() for a in read_params(files[1])}
    for name, array in case.params().items():  # every parameter under its own name, a fixed gamma's too
        np.testing.assert_array_equal(stored[name], array)


@pytest.mark.parametrize("name", SAME_NODES)
def test_nodes_are_those_of_the_source(name: str, tmp_path: Path) -> None:
    case = cases("models")[name]
    graph = load(case, tmp_path)
    files = write(graph, tmp_path / "out")

    def rows(path: Path) -> list[tuple]:
        symbol = read_symbol(path)
        names = {n.index: n.name for n in symbol.nodes}
        return sorted((n.name, n.op, [names[i] for i, _ in n.inputs]) for n in symbol.operators())

    assert rows(files[0]) == rows(tmp_path / f"{case.name}-symbol.json")


def test_fixed_gamma_and_statistics_are_what_they_were(tmp_path: Path) -> None:
    case = cases("models")["zoo/gcv_cifar_resnet20_v2"]
    before = {n["name"]: n["attrs"] for n in case.symbol()["nodes"] if n["op"] == "BatchNorm"}
    files = write(load(case, tmp_path), tmp_path / "out")
    after = {
        n["name"]: n["attrs"] for n in json.loads(files[0].read_text())["nodes"] if n["op"] == "BatchNorm"
    }
    assert before.keys() == after.keys()
    for name, attributes in before.items():
        for key in ("eps", "momentum", "fix_gamma", "use_global_stats"):
            assert float(eval(after[name][key])) == pytest.approx(float(eval(attributes[key]))), (name, key)


def test_a_fixed_gamma_stays_fixed_where_passes_took_it_away(tmp_path: Path) -> None:
    """Nothing reads it: a pass leaves it out, and the ones that stand for it must not be trained."""
    case = cases("legacy")["legacy/batchnorm_only_v080"]
    rewritten = regraft.rewrite(load(case, tmp_path)).graph
    assert not [p for p in rewritten.parameters() if p.declared == "bn_gamma"]
    files = write(rewritten, tmp_path / "out")
    (node,) = (n for n in json.loads(files[0].read_text())["nodes"] if n["op"] == "BatchNorm")
    assert node["attrs"]["fix_gamma"] == "True"
    assert "arg:bn_gamma" in [a.name for a in read_params(files[1])]


KERNEL = np.repeat(np.array([1, 2, 3], np.float32), 3).reshape(1, 1, 3, 3)


def shared_weight() -> Graph:
    return read(EXAMPLES / "shared_weight-symbol.json", [], LoadOptions())


def test_shared_weight_example() -> None:
    graph = shared_weight()
    (weight,) = graph.parameters()
    np.testing.assert_array_equal(weight.data.numpy(), KERNEL)
    (loss,) = run(graph, {"data": KERNEL})
    assert loss.item() == 42


def test_twin_shares_one_variable(tmp_path: Path) -> None:
    graph = shared_weight()
    TieWeights(twin=(("data", "data2"),)).run(graph)
    files = write(graph, tmp_path)
    document = json.loads(files[0].read_text())
    variables = [n["name"] for n in document["nodes"] if n["op"] == "null"]
    assert sorted(variables) == ["conv_weight", "data", "data2"]
    convolutions = [n for n in document["nodes"] if n["op"] == "Convolution"]
    assert len(convolutions) == 2
    assert convolutions[0]["inputs"][1] == convolutions[1]["inputs"][1]
    assert len({n["name"] for n in document["nodes"]}) == len(document["nodes"])
    assert [a.name for a in read_params(files[1])] == ["arg:conv_weight"]
    inputs = [("data", KERNEL), ("data2", KERNEL)]
    again = read(files[0], inputs, LoadOptions())
    assert len(again.parameters()) == 1
    assert [v.item() for v in run(again, dict(inputs))] == [42, 42]


def test_nothing_is_overwritten_or_left_half(tmp_path: Path) -> None:
    graph = shared_weight()
    out = tmp_path / "out"
    write(graph, out)
    before = {p.name: p.read_bytes() for p in out.iterdir()}
    with pytest.raises(UsageError, match="E002"):
        write(graph, out)
    write(graph, out, force=True)
    assert {p.name: p.read_bytes() for p in out.iterdir()} == before  # same model, same bytes
    shutil.rmtree(out)

    b = Builder(Graph())
    x = b.graph.add_input("x", TensorType("float32", (2, 3)))
    b.graph.outputs.append(("y", b.op("NonZero", x)))
    with pytest.raises(UnsupportedError, match=r"E601(.|\n)*NonZero"):
        write(b.graph, out)
    assert not out.exists()


def test_sum_of_other_shapes_is_no_add_n(tmp_path: Path) -> None:
    """add_n takes equal shapes only, which ONNX's Sum need not have."""
    b = Builder(Graph())
    x, y = (b.graph.add_input(n, TensorType("float32", s)) for n, s in (("x", (2, 3)), ("y", (3,))))
    b.graph.outputs.append(("wide", b.op("Sum", x, y, x)))
    b.graph.outputs.append(("plain", b.op("Sum", x, x, x)))
    (symbol, *_) = write(b.graph, tmp_path / "out")
    ops = [n["op"] for n in json.loads(symbol.read_text())["nodes"] if n["op"] != "null"]
    assert sorted(ops) == ["add_n", "broadcast_add", "broadcast_add"]
    inputs = [("x", np.float32([[1, 2, 3], [4, 5, 6]])), ("y", np.float32([10, 20, 30]))]
    wide, plain = run(read(symbol, inputs, LoadOptions()), dict(inputs))
    np.testing.assert_array_equal(wide, 2 * inputs[0][1] + inputs[1][1])
    np.testing.assert_array_equal(plain, 3 * inputs[0][1])


def test_form_that_mxnet_does_not_have_is_refused(tmp_path: Path) -> None:
    b = Builder(Graph())
    x = b.graph.add_input("x", TensorType("float32", (1, 2, 8)))
    b.graph.outputs.append(("y", b.op("MaxPool", x, kernel_shape=[2], pads=[0, 1])))
    with pytest.raises(BackendError, match=r"E602.*equal pads"):
        write(b.graph, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_nodes_are_named_by_module_and_not_by_source_line(tmp_path: Path) -> None:
    """A line's path depends on the working directory."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.a(self.a(x).relu()) + 1

    graph = regraft.load(Net(), (torch.ones(2, 4),))
    folder = regraft.save(graph, tmp_path / "out", to="mxnet")[0].parent
    nodes = json.loads(next(folder.glob("*-symbol.json")).read_text())["nodes"]
    assert [n["name"] for n in nodes if n["op"] != "null"] == ["a_linear", "relu", "a_2_linear", "add"]


def test_files_are_named_after_the_file_that_was_read(tmp_path: Path) -> None:
    graph = regraft.load(torch.nn.Linear(4, 2), (torch.ones(2, 4),))
    regraft.save(graph, tmp_path / "my.net.onnx", to="onnx")
    files = regraft.save(regraft.load(tmp_path / "my.net.onnx"), tmp_path / "out", to="mxnet")
    assert [f.name for f in files] == ["my.net-symbol.json", "my.net-0000.params", "renames.json"]


def test_a_dropout_of_whole_channels_is_read_again(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Conv2d(3, 4, 1), nn.Dropout2d(0.25), nn.ReLU()).eval()
    graph = regraft.load(net, (torch.ones(2, 3, 4, 4),))
    files, report = regraft.rewrite_file(graph, regraft.rewrite(graph), tmp_path / "out", "mxnet")
    assert report.passed
    back = regraft.load(next(f for f in files if f.name.endswith("symbol.json")), ("2x3x4x4",))
    (drop,) = [o for o in back.operators() if "Dropout" in o.op_type]
    assert (drop.qualified_name, drop.float("ratio")) == ("regraft.FeatureDropout", 0.25)


class Recurrent(nn.Module):
    """A stack of recurrent layers, with all that it gives."""

    def __init__(self, kind: type[nn.RNNBase], **options: Any) -> None:
        super().__init__()
        self.layers = kind(3, 4, **options)

    def forward(self, x: torch.Tensor, *states: torch.Tensor) -> object:
        given = (states if len(states) > 1 else states[0],) if states else ()
        return self.layers(x, *given)


STACKS: dict[str, tuple[type[nn.RNNBase], dict[str, Any], list[tuple[int, ...]]]] = {
    "lstm": (nn.LSTM, {"batch_first": True}, [(2, 5, 3)]),
    "lstm, two layers, both directions": (nn.LSTM, {"num_layers": 2, "bidirectional": True}, [(5, 2, 3)]),
    "lstm with states": (nn.LSTM, {"num_layers": 2}, [(5, 2, 3), (2, 2, 4), (2, 2, 4)]),
    "gru": (nn.GRU, {"batch_first": True}, [(2, 5, 3)]),
    "gru without biases": (nn.GRU, {"bias": False, "bidirectional": True}, [(5, 2, 3)]),
    "gru with a state": (nn.GRU, {}, [(5, 2, 3), (1, 2, 4)]),
    "rnn": (nn.RNN, {"num_layers": 2}, [(5, 2, 3)]),
    "rnn of relus": (nn.RNN, {"nonlinearity": "relu", "batch_first": True}, [(2, 5, 3)]),
}


@pytest.mark.parametrize("is_onnx", [False, True], ids=["torch", "onnx"])
@pytest.mark.parametrize(("kind", "options", "shapes"), STACKS.values(), ids=STACKS)
def test_a_recurrent_stack_is_one_operator_of_one_vector(
    kind: type[nn.RNNBase],
    options: dict[str, Any],
    shapes: list[tuple[int, ...]],
    is_onnx: bool,
    tmp_path: Path,
) -> None:
    torch.manual_seed(0)
    given = tuple(torch.randn(shape) for shape in shapes)
    graph = regraft.load(Recurrent(kind, **options).eval(), given, dynamic_batch=False)
    if is_onnx:
        regraft.save(graph, tmp_path / "net.onnx", to="onnx")
        graph = regraft.load(tmp_path / "net.onnx")
    files, report = regraft.rewrite_file(graph, regraft.rewrite(graph), tmp_path / "out", "mxnet")
    assert report.passed, report.render()
    (symbol,) = [f for f in files if f.name.endswith("symbol.json")]
    nodes = json.loads(symbol.read_text())["nodes"]
    assert [n["op"] for n in nodes].count("RNN") == (1 if not is_onnx else options.get("num_layers", 1))


def test_a_recurrent_layer_of_an_open_batch(tmp_path: Path) -> None:
    graph = regraft.load(Recurrent(nn.LSTM, batch_first=True).eval(), (torch.randn(2, 5, 3),))
    _, report = regraft.rewrite_file(graph, regraft.rewrite(graph), tmp_path / "out", "mxnet")
    assert report.passed, report.render()
    assert re.search(r"batches \d+, \d+", report.render())


PLACES = torch.tensor([[0, 2, 1], [1, -1, 1]])
SCATTERS: dict[str, Callable[..., torch.Tensor]] = {
    "sums": lambda x, y: x.scatter_add(1, PLACES % 3, y),
    "sums of rows": lambda x, y: x.index_add(0, torch.tensor([1, 1]), y),
    "sums by several indices": lambda x, y: x.index_put(
        (torch.tensor([1, 1, 0]), torch.tensor([2, 2, -1])), y[0], accumulate=True
    ),
    "a number": lambda x, y: x.scatter(1, PLACES % 3, 1.5) + y,
}


@pytest.mark.parametrize("function", SCATTERS.values(), ids=SCATTERS)
def test_writes_by_index(function: Callable[..., torch.Tensor], tmp_path: Path) -> None:
    class Net(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return function(x, y)

    given = torch.randn(2, 3), torch.randn(2, 3)
    graph = regraft.load(Net(), given, dynamic_batch=False)
    _, report = regraft.rewrite_file(graph, regraft.rewrite(graph), tmp_path / "out", "mxnet")
    assert report.passed, report.render()


def test_what_needs_a_static_shape_names_the_way_out(tmp_path: Path) -> None:
    class Net(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.scatter(1, PLACES % 3, 1.5)

    graph = regraft.load(Net(), (torch.randn(2, 3),))
    with pytest.raises(BackendError, match="E602 expected operand 0 of a static shape") as refused:
        write(regraft.rewrite(graph).graph, tmp_path / "out")
    assert "--no-dynamic-batch" in str(refused.value.hint)


def test_a_projection_and_lengths_of_sequences_are_refused(tmp_path: Path) -> None:
    graph = regraft.load(Recurrent(nn.LSTM, proj_size=2).eval(), (torch.randn(5, 2, 3),))
    with pytest.raises(BackendError, match="expected no projection: MXNet's RNN has one on a GPU alone"):
        write(graph, tmp_path / "out")
