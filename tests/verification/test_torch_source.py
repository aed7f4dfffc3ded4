"""Live torch modules against their graphs in ONNX Runtime: right ones pass, broken ones fail by name."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch

import regraft
from regraft.backends.onnx_model import to_model, write
from regraft.ir import Builder, Graph, ModelError, Operator, TensorData, UsageError
from regraft.verification import verify

nn = torch.nn


class Block(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        y = self.relu(self.norm(self.conv(x)))
        y += x
        return self.relu(y)


class Net(nn.Module):
    """Blocks in a container, an in-place operator, a module called twice, two outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.blocks = nn.Sequential(Block(8), Block(8))
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(8, 5)

    def forward(self, x):
        features = self.blocks(self.stem(x))
        return self.fc(torch.flatten(self.pool(features), 1)), features


@pytest.fixture(scope="module")
def net() -> nn.Module:
    torch.manual_seed(0)
    made = Net()
    for module in made.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 2)
    return made


@pytest.fixture(scope="module")
def graph(net: nn.Module) -> Graph:
    return regraft.load(net, (torch.randn(2, 3, 16, 16),))


def test_equal_graph_passes_on_the_example_then_on_draws_then_at_other_batch_sizes(graph: Graph) -> None:
    report = verify(graph, graph)
    assert report.passed, report.render()
    kinds = [
        "N=2, the example",
        "N=2",
        "N=5",
        "N=5, x10",
        "N=5, +3",
        "N=5, sparse",
        "N=5, data-like",
        "N=1, positive",
    ]
    assert [(row.name, row.case) for row in report.outputs] == [
        (name, case) for case in kinds for name, _ in graph.outputs
    ]
    assert report.first_divergence is None
    assert "float64" in report.yardstick


def test_every_module_call_is_compared_in_call_order(graph: Graph) -> None:
    rows = verify(graph, graph).modules
    assert [row.call for row in rows] == [n for n in graph.modules.call_names().values() if n != "#1"]
    assert all(row.passed and row.isolated_passed for row in rows)
    assert {"blocks.0.relu#1", "blocks.0.relu#2", "blocks#1"} <= {row.call for row in rows}


def test_module_is_left_as_it_was(net: nn.Module, graph: Graph) -> None:
    net.train()
    net.blocks[0].norm.eval()
    flags = [m.training for m in net.modules()]
    state = {k: v.clone() for k, v in net.state_dict().items()}
    verify(graph, graph)
    assert [m.training for m in net.modules()] == flags
    assert all(torch.equal(v, state[k]) for k, v in net.state_dict().items())
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in net.modules())


def test_file_with_and_without_module_boundaries(graph: Graph, tmp_path: Path) -> None:
    file = write(graph, tmp_path / "net.onnx")[0]
    report = verify(graph, file)
    assert report.passed, report.render()
    assert all(row.passed for row in report.modules)
    model = onnx.load(file)
    del model.metadata_props[:]
    onnx.save(model, file)
    report = verify(graph, file)
    assert report.passed
    assert all(row.passed is None and "where its modules begin" in row.reason for row in report.modules)


def test_file_with_external_weights(graph: Graph, tmp_path: Path) -> None:
    report = verify(graph, write(graph, tmp_path / "net.onnx", external_data=True)[0])
    assert report.passed, report.render()
    assert all(row.isolated_passed for row in report.modules)


def test_weights_too_large_to_copy_are_mapped(
    graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regraft.verification.runners.onnx_runner._IN_MEMORY", 100)
    for target in (graph, write(graph, tmp_path / "net.onnx")[0]):
        report = verify(graph, target)
        assert report.passed, report.render()
        assert all(row.isolated_passed for row in report.modules)


# -- broken targets ------------------------------------------------------------------------------------


def scaled_weight(name: str) -> Callable[[Graph], None]:
    """One element of a weight is off by a hundredth of the largest."""

    def change(graph: Graph) -> None:
        parameter = next(p for p in graph.parameters() if p.name == name)
        array = np.array(parameter.data.numpy())
        array.flat[0] += np.abs(array).max() * np.float32(1e-2)
        parameter.data = TensorData.of(array)

    return change


def operator_in(graph: Graph, call: str, op_type: str) -> Operator:
    names = graph.modules.call_names()
    return next(
        n for n in graph.operators() if n.op_type == op_type and n.call is not None and names[n.call] == call
    )


def swapped_padding(graph: Graph) -> None:
    operator_in(graph, "stem#1", "Conv").attributes["pads"] = [0, 1, 2, 1]


def other_epsilon(graph: Graph) -> None:
    operator_in(graph, "blocks.1.norm#1", "BatchNormalization").attributes["epsilon"] = 3e-5


def skipped_second_activation(graph: Graph) -> None:
    relu = operator_in(graph, "blocks.0.relu#2", "Relu")
    relu.op_type = "Neg"


@pytest.mark.parametrize(
    ("damage", "culprit"),
    [
        (scaled_weight("stem.weight"), "stem#1"),
        (scaled_weight("blocks.0.conv.weight"), "blocks.0.conv#1"),
        (scaled_weight("blocks.1.norm.running_mean"), "blocks.1.norm#1"),
        (scaled_weight("fc.bias"), "fc#1"),
        (swapped_padding, "stem#1"),
        (other_epsilon, "blocks.1.norm#1"),
        (skipped_second_activation, "blocks.0.relu#2"),
    ],
)
def test_broken_target_fails_and_names_the_module(
    graph: Graph, damage: Callable[[Graph], None], culprit: str
) -> None:
    broken = graph.copy()
    damage(broken)
    report = verify(graph, broken)
    assert not report.passed
    assert report.first_divergence == culprit
    # alone, that module is wrong, and no other but the containers around it
    wrong = {row.call.rpartition("#")[0] for row in report.modules if row.isolated_passed is False}
    path = culprit.rpartition("#")[0]
    assert path in wrong
    assert wrong <= {path, path.rpartition(".")[0], path.split(".")[0]}


def test_fault_between_modules_is_put_down_to_the_module_around_it(graph: Graph) -> None:
    broken = graph.copy()
    operator_in(broken, "blocks.1#1", "Add").op_type = "Sub"
    assert verify(graph, broken).first_divergence == "blocks.1#1"


def test_fault_after_the_last_module_is_put_down_to_the_root() -> None:
    class Tail(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(3, 4)

        def forward(self, x):
            return torch.tanh(self.fc(x))

    source = regraft.load(Tail(), (torch.randn(2, 3),))
    broken = source.copy()
    next(n for n in broken.operators() if n.op_type == "Tanh").op_type = "Sigmoid"
    report = verify(source, broken)
    assert not report.passed
    assert report.first_divergence == "#1"


def test_baked_in_batch_fails_at_other_sizes(graph: Graph, tmp_path: Path) -> None:
    model = to_model(graph)
    name = model.graph.output[0].name
    last = next(node for node in model.graph.node if name in node.output)
    last.output[0] = "flexible"
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([2, 5]), "baked"))
    model.graph.node.append(onnx.helper.make_node("Reshape", ["flexible", "baked"], [name]))
    report = verify(graph, model)
    assert not report.passed
    assert [row.case for row in report.outputs if not row.passed] == ["N=5"] * 2 + ["N=1, positive"] * 2
    assert "the target does not run" in report.outputs[-1].reason


def test_missing_and_additional_outputs_fail(graph: Graph) -> None:
    fewer = graph.copy()
    fewer.outputs = fewer.outputs[:1]
    report = verify(graph, fewer)
    assert not report.passed
    assert "not in the target" in [row.reason for row in report.outputs]
    more = graph.copy()
    more.outputs = [*more.outputs, ("extra", more.outputs[0][1])]
    report = verify(graph, more)
    assert not report.passed
    assert "not in the source" in [row.reason for row in report.outputs]


def test_given_inputs_are_used(graph: Graph) -> None:
    name = graph.input_nodes()[0].name
    report = verify(graph, graph, {name: np.zeros((4, 3, 16, 16), np.float32)})
    assert report.passed
    assert {(row.case, row.shape[0]) for row in report.outputs} == {
        ("N=4", 4),
        ("N=1", 1),
        ("N=2", 2),
        ("N=5", 5),
    }


# -- other sources and targets -------------------------------------------------------------------------


class Embedded(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, 6)
        self.lstm_like = nn.Linear(6, 50)
        self.lstm_like.weight = self.embed.weight

    def forward(self, ids):
        return self.lstm_like(self.embed(ids))


def test_indices_cover_the_table() -> None:
    source = regraft.load(Embedded(), (torch.zeros(2, 7, dtype=torch.int64),))
    assert verify(source, source).passed
    broken = source.copy()
    gather = next(n for n in broken.operators() if n.op_type == "Gather")
    table = broken.operands(gather.key)[0]
    array = np.array(broken.parameter(table.node).data.numpy())
    array[2:] += 1  # only rows that inputs of zeros and ones never reach
    broken.parameter(table.node).data = TensorData.of(array)
    assert verify(source, broken).first_divergence == "embed#1"


class Chosen(nn.Module):
    """The largest values in whatever order torch leaves them, and the order of equals."""

    def forward(self, x):
        values, places = torch.topk(x, 33, sorted=False)
        order, sorted_ = torch.argsort((x > 0).long(), -1), x.round().sort(1, True)[1]
        return values, places, order, sorted_, x.relu().topk(33, 1)[1]


class Choosing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.chosen = Chosen()

    def forward(self, x):
        values, places, order, sorted_, first = self.chosen(x)
        summed = values.sum(-1) + x.gather(1, places).sum(-1)
        return summed, x.gather(1, order).sort(-1)[0], sorted_.sum(-1), first


@pytest.mark.parametrize("target", ["onnx", "mindspore"])
def test_orders_that_torch_leaves_open_are_the_graphs(tmp_path: Path, target: str) -> None:
    graph = regraft.load(Choosing(), (torch.randn(2, 40),))
    out = tmp_path / ("net.onnx" if target == "onnx" else "net")
    regraft.save(regraft.rewrite(graph).graph, out, to=target)
    report = verify(graph, out)
    assert report.passed, report.render()
    row = next(row for row in report.modules if row.call == "chosen#1")
    assert row.passed
    assert row.isolated_passed


class Counting(nn.Module):
    """Returns its counter, and a view of its cache: tensors whose values are put back after every run."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.long))
        self.register_buffer("cache", torch.zeros(2, 6, 4))
        self.fc = nn.Linear(4, 4)

    def forward(self, x, position):
        self.count += 1
        self.cache[:, position] = self.fc(x)
        return self.cache[:, 1:].transpose(1, 2), self.count


class Around(nn.Module):
    """Calls a module that returns its state."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Counting()

    def forward(self, x, position):
        cache, count = self.inner(x, position)
        return cache * 2 + count


@pytest.mark.parametrize("net", [Counting, Around])
@pytest.mark.parametrize("target", ["onnx", "mindspore"])
def test_state_that_a_model_returns_has_the_values_of_the_run(
    tmp_path: Path, target: str, net: type[nn.Module]
) -> None:
    torch.manual_seed(0)
    graph = regraft.load(net().eval(), (torch.randn(2, 1, 4), torch.tensor([1])), dynamic_batch=False)
    path = tmp_path / "net.onnx" if target == "onnx" else tmp_path / "net"
    regraft.save(regraft.rewrite(graph).graph, path, to=target)
    report = regraft.verify(graph, path)
    assert report.passed, report.render()
    assert all(row.passed for row in report.modules)


def test_state_that_a_target_returns_from_before_the_run_is_a_fault() -> None:
    graph = regraft.load(Counting().eval(), (torch.randn(2, 1, 4), torch.tensor([1])), dynamic_batch=False)
    wrong = regraft.rewrite(graph).graph
    (name, _), (count, _) = wrong.outputs
    wrong.outputs[1] = (count, Builder(wrong).constant(np.zeros((), np.int64)))
    report = verify(graph, wrong)
    assert {row.name for row in report.outputs if not row.passed} == {count}
    assert name != count


def test_sums_of_the_runtime_excuse_no_other_operator(net: nn.Module, graph: Graph, tmp_path: Path) -> None:
    """ONNX Runtime adds up one by one in a pool: more is allowed there and behind it, but not elsewhere."""
    file = write(graph, tmp_path / "net.onnx")[0]
    assert verify(graph, file).yardstick.startswith("64 units")
    model = onnx.load(file)
    norm = next(n for n in model.graph.node if n.op_type == "BatchNormalization")
    epsilon = next(a for a in norm.attribute if a.name == "epsilon")
    epsilon.f *= 1.4  # 30 units in the last place at a variance of 0.5
    onnx.save(model, file)
    report = verify(graph, file)
    assert report.first_divergence == "blocks.0.norm#1"


class Positions(nn.Embedding):
    """Looks at the shape of what it is given, and at nothing else."""

    def forward(self, x):
        return super().forward(torch.arange(x.shape[1]).expand(x.shape[0], -1))


class Placed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.positions = nn.Embedding(9, 4), Positions(16, 4)

    def forward(self, ids):
        x = self.embed(ids)
        return x + self.positions(x[..., -1])


def test_a_module_is_not_run_alone_on_values_of_another_kind(tmp_path: Path) -> None:
    """The graph takes the sizes from the ids, which have the shape of what the source's module was given."""
    graph = regraft.load(Placed(), (torch.randint(0, 9, (2, 5)),))
    regraft.save(regraft.rewrite(graph).graph, tmp_path / "net.onnx")
    report = verify(graph, tmp_path / "net.onnx")
    assert report.passed, report.render()
    row = next(row for row in report.modules if row.call == "positions#1")
    assert row.passed
    assert row.isolated_passed is None


class Guarded(nn.Module):
    """Insists on a batch of two at run time, where no symbol shows it."""

    def forward(self, x):
        if not torch.compiler.is_compiling() and x.shape[0] != 2:
            raise ValueError("two, please")
        return x * 2


def test_source_that_refuses_the_second_batch_is_noted() -> None:
    source = regraft.load(Guarded(), (torch.randn(2, 3),))
    report = verify(source, source)
    assert report.passed
    if len(report.outputs) == 1 and report.outputs[0].case == "N=2":
        assert any("two, please" in note for note in report.notes)


@pytest.mark.parametrize("path", ["blocks.1.conv", "fc"])
def test_another_model_of_the_same_class_runs_in_its_own_framework(
    net: nn.Module, graph: Graph, path: str
) -> None:
    other = Net()
    other.load_state_dict(net.state_dict())
    target = regraft.load(other, (torch.randn(2, 3, 16, 16),))
    report = verify(graph, target, own=True)
    assert report.passed, report.render()
    assert "PyTorch" in report.target
    with torch.no_grad():
        other.get_submodule(path).weight[0] *= 1.01
    assert verify(graph, target, own=True).first_divergence == f"{path}#1"


def test_exported_program_is_a_source() -> None:
    torch.manual_seed(0)
    program = torch.export.export(
        nn.Sequential(nn.Linear(3, 4), nn.ReLU()), (torch.randn(2, 3),), strict=False
    )
    source = regraft.load(program, None)
    report = verify(source, source)
    assert report.passed, report.render()
    assert "PyTorch" in report.source
    assert all(t.dtype == torch.float32 for t in program.state_dict.values())


def test_model_that_raises_is_one_clear_error(graph: Graph) -> None:
    name = graph.input_nodes()[0].name
    with pytest.raises(ModelError, match="E702"):
        verify(graph, graph, {name: np.zeros((2, 4, 16, 16), np.float32)})


def test_target_that_is_nothing_is_refused(graph: Graph, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="E001"):
        verify(graph, tmp_path / "nothing.onnx")
    bad = tmp_path / "bad.onnx"
    bad.write_bytes(b"not a model")
    with pytest.raises(ModelError, match="E101"):
        verify(graph, bad)


class LongMean(nn.Module):
    def forward(self, x):
        return x.abs().mean((1, 2))


def test_a_tolerance_for_long_sums_is_not_explained_by_mindspore(tmp_path: Path) -> None:
    graph = regraft.load(LongMean(), (torch.randn(1, 500, 600),))
    regraft.save(graph, tmp_path / "net.onnx")
    report = verify(graph, tmp_path / "net.onnx")
    assert report.passed
    assert not [note for note in report.notes if "MindSpore" in note]
