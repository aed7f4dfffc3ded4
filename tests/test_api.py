"""The library's front door: every form of model and inputs it takes, and a user's own pass."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch

import regraft
from regraft.api.targets import removal


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.norm = torch.nn.BatchNorm2d(8)
        self.head = torch.nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.relu(self.norm(self.conv(x))).mean((2, 3)))


@dataclass(frozen=True)
class Freeze(regraft.Pass):
    """Freeze every parameter whose name starts with a prefix."""

    prefix: str
    name: ClassVar[str] = "freeze"

    def run(self, graph: regraft.Graph) -> list[regraft.Change]:
        frozen = [p for p in graph.parameters() if p.trainable and p.name.startswith(self.prefix)]
        for parameter in frozen:
            parameter.trainable = False
        return [regraft.Change("FR101", "is frozen", p.name) for p in frozen]


@pytest.fixture(scope="module")
def net() -> Net:
    return Net().train()


@pytest.fixture(scope="module")
def graph(net: Net) -> regraft.Graph:
    return regraft.load(net, (torch.randn(1, 3, 8, 8),))


def test_the_callers_module_stays_in_its_mode(net: Net, graph: regraft.Graph) -> None:
    assert net.training
    assert all(m.training for m in net.modules())


@pytest.mark.parametrize(
    "inputs",
    [
        ("4x3x8x8",),
        {"x": "4x3x8x8:float32"},
        (np.zeros((4, 3, 8, 8), np.float32),),
        {"x": torch.zeros(4, 3, 8, 8)},
        "4x3x8x8",
        torch.zeros(4, 3, 8, 8),
    ],
    ids=["spec", "named spec", "array", "named tensor", "bare spec", "bare tensor"],
)
def test_forms_of_input(net: Net, inputs: object) -> None:
    loaded = regraft.load(net, inputs, dynamic_batch=False)
    assert [str(n.type) for n in loaded.input_nodes()] == ["f32[4,3,8,8]"]


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (torch.eye(3).to_sparse(), "float32 in the layout sparse_coo"),
        (torch.eye(3).to(torch.float8_e4m3fn), "float8_e4m3fn in the layout strided"),
    ],
)
def test_tensors_that_numpy_cannot_hold_are_refused_as_inputs(value: torch.Tensor, named: str) -> None:
    with pytest.raises(regraft.UsageError, match=named):
        regraft.load(torch.nn.ReLU(), (value,))


def test_bfloat16_inputs_keep_their_type() -> None:
    layer = torch.nn.Linear(4, 4).to(torch.bfloat16)
    loaded = regraft.load(layer, (torch.randn(2, 4, dtype=torch.bfloat16),))
    assert [str(n.type) for n in loaded.input_nodes()] == ["bf16[N,4]"]


def test_batch_is_symbolic_unless_told_otherwise(graph: regraft.Graph) -> None:
    assert [str(n.type) for n in graph.input_nodes()] == ["f32[N,3,8,8]"]


def test_rewrite_gives_a_new_graph(graph: regraft.Graph) -> None:
    before = str(graph)
    result = regraft.rewrite(graph)
    assert result.graph is not graph
    assert str(graph) == before
    assert {r.source for r in result.renames} >= {"conv.weight", "norm.running_mean", "head.bias"}


def test_what_rewrite_gives_is_saved_as_its_graph_is(graph: regraft.Graph, tmp_path: Path) -> None:
    result = regraft.rewrite(graph)
    for name, given in (("a.onnx", result), ("b.onnx", result.graph)):
        regraft.save(given, tmp_path / name)
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()
    assert regraft.verify(graph, tmp_path / "a.onnx").passed
    assert not regraft.rewrite(result).changes


@pytest.mark.parametrize("call", [lambda given: regraft.save(given, "x.onnx"), regraft.rewrite])
def test_what_is_no_graph_is_called_so(call: Callable[[object], object], net: Net) -> None:
    with pytest.raises(regraft.UsageError, match="E001 expected a graph, got `Net`") as error:
        call(net)
    assert "regraft.load(model, inputs)" in error.value.hint


def test_no_passes_change_nothing(graph: regraft.Graph) -> None:
    result = regraft.rewrite(graph, [])
    assert result.changes == []
    assert str(result.graph) == str(graph)


def test_a_users_own_pass_beside_a_command_line_string(graph: regraft.Graph) -> None:
    result = regraft.rewrite(graph, ["rename-parameters", Freeze("conv.")])
    assert {c.place for c in result.changes if c.code == "FR101"} == {"conv.weight", "conv.bias"}
    assert not any(p.trainable for p in result.graph.parameters() if p.name.startswith("conv."))


def test_verify_takes_live_models_graphs_and_files(net: Net, graph: regraft.Graph, tmp_path: Path) -> None:
    result = regraft.rewrite(graph)
    regraft.save(result.graph, tmp_path / "out", to="mindspore")
    regraft.save(result.graph, tmp_path / "out.onnx")
    x = torch.randn(2, 3, 8, 8)
    for target in (tmp_path / "out", tmp_path / "out.onnx", str(tmp_path / "out.onnx"), result.graph, net):
        report = regraft.verify(net, target, (x,))
        assert report.passed, report.render()
        assert report.outputs
        assert report.modules
        assert report.first_divergence is None


def test_verify_fails_and_names_the_module(net: Net, graph: regraft.Graph, tmp_path: Path) -> None:
    regraft.save(regraft.rewrite(graph).graph, tmp_path / "out.onnx")
    other = Net()
    other.load_state_dict(net.state_dict())
    with torch.no_grad():
        other.head.bias[2] += 1e-3
    report = regraft.verify(other, tmp_path / "out.onnx", (torch.randn(2, 3, 8, 8),))
    assert not report.passed
    assert report.first_divergence == "head#1"


def test_check_of_a_live_model_and_of_a_graph(net: Net, graph: regraft.Graph) -> None:
    static, full = regraft.check(net), regraft.check(graph)
    assert static.clean
    assert full.clean
    assert "drop-unused-modules" in static.skipped
    assert not full.skipped


def test_an_option_that_does_not_exist_is_a_type_error(net: Net) -> None:
    for call in (regraft.check, regraft.load):
        with pytest.raises(TypeError, match="typo"):
            call(net, "2x3", typo=1)


def test_an_operator_without_a_lowering_hides_no_finding() -> None:
    class Odd(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = torch.nn.Linear(3, 3)
            self.b = self.a

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.special.airy_ai(self.b(self.a(x)))

    findings = regraft.check(Odd(), (torch.randn(2, 3),))
    assert {f.code for f in findings} >= {"E201", "DM101"}
    assert not findings.clean


def test_errors_are_one_family(net: Net) -> None:
    with pytest.raises(regraft.RegraftError, match="E103"):
        regraft.load(net, ("2x4x8x8",))
    with pytest.raises(regraft.RegraftError, match="E001"):
        regraft.load(object())


def test_hints_speak_of_arguments(net: Net, graph: regraft.Graph, tmp_path: Path) -> None:
    with pytest.raises(regraft.RegraftError) as found:
        regraft.load(net)
    assert "--" not in str(found.value)
    assert "`inputs`" in str(found.value)
    assert "--input" in found.value.for_command_line()
    (tmp_path / "out.onnx").write_text("mine")
    with pytest.raises(regraft.RegraftError, match="force=True"):
        regraft.save(graph, tmp_path / "out.onnx")
    with pytest.raises(regraft.RegraftError, match="give `to`"):
        regraft.save(graph, tmp_path / "out")


def test_dir_shows_the_api() -> None:
    shown = set(dir(regraft))
    assert {"load", "rewrite", "save", "verify", "check", "Pass", "default_pipeline", "add_lowering"} <= shown
    assert "TYPE_CHECKING" not in shown
    assert all(hasattr(regraft, name) for name in shown)


class Log:
    """A reporter that keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def began(self, phase: str) -> None:
        self.told.append(phase)

    def ended(self, phase: str, seconds: float) -> None:
        assert seconds >= 0
        self.told.append(f"/{phase}")


def test_a_reporter_is_told_of_phases_and_of_their_end_in_an_error(
    graph: regraft.Graph, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = Log()
    with regraft.reporting(log):
        result = regraft.rewrite(graph)
        regraft.rewrite_file(graph, result, tmp_path / "out.onnx")
        with pytest.raises(regraft.RegraftError):
            regraft.load("no_such_file.py:Net")
    regraft.rewrite(graph)
    phases = ["rewrite", "/rewrite", "write", "/write", "verify", "/verify", "load", "/load"]
    assert log.told == phases
    assert capsys.readouterr().out == ""


def test_no_module_of_ours_has_the_name_of_a_function() -> None:
    modules = {path.stem for path in Path(regraft.__file__).parent.glob("*.py")}
    modules |= {path.parent.name for path in Path(regraft.__file__).parent.glob("*/__init__.py")}
    assert not modules & set(regraft.__all__)


def test_conversion_states_its_own_parameters() -> None:
    names = list(inspect.signature(regraft.convert_checkpoint).parameters)
    assert names[:4] == ["source", "target", "map", "like"]
    assert list(inspect.signature(regraft.diff).parameters)[2] == "map"


class Pooled(torch.nn.Module):
    """A call whose result nothing reads, as of an encoder's pooler, and a module that nothing calls."""

    def __init__(self, *, pooler: bool) -> None:
        super().__init__()
        self.body, self.drop, self.head = torch.nn.Linear(4, 4), torch.nn.Dropout(0.1), torch.nn.Linear(4, 2)
        if pooler:
            self.pooler = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.body(x)
        if hasattr(self, "pooler"):
            self.pooler(x)
        return x


@pytest.mark.parametrize(
    ("pooler", "verdict"),
    [
        (False, "10 of 30 trainable parameters in 2 tensors, as nothing calls them: `head`"),
        (
            True,
            "30 of 50 trainable parameters in 4 tensors, as no output depends on them: `pooler.0`, `head`",
        ),
    ],
)
def test_a_removal_names_what_held_the_parameters(*, pooler: bool, verdict: str) -> None:
    graph = regraft.load(Pooled(pooler=pooler), torch.ones(1, 4))
    assert str(removal(graph, regraft.rewrite(graph))) == f"REMOVED {verdict}"


class WithAuxiliary(torch.nn.Module):
    """A head that training alone calls, in a list as models of segmentation hold theirs."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.heads = torch.nn.Linear(4, 4), torch.nn.ModuleList([Pooled(pooler=False)])

    def forward(self, x: torch.Tensor) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
        x = self.body(x)
        return (x, self.heads[0](x)) if self.training else x


def test_a_head_that_training_alone_calls_is_no_fault() -> None:
    graph = regraft.load(WithAuxiliary(), torch.ones(1, 4))
    found = [(c.code, c.place, c.severity) for c in regraft.check(graph).findings if c.code.startswith("DU")]
    assert found == [("DU106", "heads", "note")]
    gone = removal(graph, regraft.rewrite(graph))
    assert (
        str(gone)
        == "REMOVED 30 of 50 trainable parameters in 4 tensors, as training alone calls them: `heads`"
    )
