"""Faults in regions of functions that bend which standard normal inputs do not reach."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper

import regraft
from regraft.ir import Graph
from regraft.verification import verify
from regraft.verification.bending import Bending
from regraft.verification.inputs import make_inputs

nn = torch.nn


class Bent(nn.Module):
    """A layer whose values are small, then an activation, then a layer."""

    def __init__(self, activation: nn.Module | Callable[[torch.Tensor], torch.Tensor], normed: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last = nn.Linear(6, 64), nn.Linear(64, 5)
        self.norm = nn.LayerNorm(64) if normed else nn.Identity()
        self.act = activation

    def forward(self, x):
        return self.last(self.act(self.norm(self.first(x))))


def loaded(activation: object, *, normed: bool) -> Graph:
    return regraft.load(Bent(activation, normed), ("2x6",))


class Function(nn.Module):
    """A function within a module that has more to do."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function
        self.inner = nn.Linear(64, 64)

    def forward(self, x):
        return self.function(self.inner(x))


def replaced(old: str, new: str, **attributes: float) -> Callable[[onnx.ModelProto], None]:
    """Another operator in the place of the first of a kind, with its first operand only."""

    def damage(model: onnx.ModelProto) -> None:
        node = next(n for n in model.graph.node if n.op_type == old)
        node.op_type = new
        del node.input[1:]
        del node.attribute[:]
        node.attribute.extend(onnx.helper.make_attribute(k, v) for k, v in attributes.items())

    return damage


def clipped(model: onnx.ModelProto) -> None:
    """A ReLU6 in the place of a ReLU."""
    node = next(n for n in model.graph.node if n.op_type == "Relu")
    for name, bound in (("low", 0), ("high", 6)):
        model.graph.initializer.append(numpy_helper.from_array(np.array(bound, np.float32), name))
    node.op_type = "Clip"
    node.input.extend(["low", "high"])


def other_number(old: float, new: float) -> Callable[[onnx.ModelProto], None]:
    """Another number in the place of a constant of one element."""

    def damage(model: onnx.ModelProto) -> None:
        found = 0
        for tensor in model.graph.initializer:
            array = numpy_helper.to_array(tensor)
            if array.size == 1 and array.reshape(-1)[0] == np.float32(old):
                tensor.CopyFrom(numpy_helper.from_array(np.full_like(array, new), tensor.name))
                found += 1
        assert found == 1, [numpy_helper.to_array(t) for t in model.graph.initializer if not t.dims]

    return damage


FAULTS = {
    "relu for relu6": (nn.ReLU6(), replaced("Clip", "Relu")),
    "relu6 for relu": (nn.ReLU(), clipped),
    "identity below -100": (
        Function(lambda x: torch.clamp(x, min=-100)),
        replaced("Max", "Identity"),
    ),
    "another bound": (nn.Hardtanh(-20, 20), other_number(20, 30)),
    "another threshold": (Function(lambda x: torch.where(x > 5, x * 2, x)), other_number(5, 7)),
    "no threshold": (nn.Softplus(threshold=6), other_number(6, 1e6)),
    "hard swish for swish": (nn.Hardswish(), replaced("HardSwish", "HardSigmoid", alpha=1 / 6, beta=0.5)),
    "another slope": (
        nn.Threshold(-8, -80),
        other_number(-80, -8),
    ),
}


@pytest.mark.parametrize("normed", [False, True], ids=["plain", "normalised"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_a_region_that_normal_inputs_do_not_reach_is_caught(
    fault: str, normed: bool, tmp_path: Path
) -> None:
    activation, damage = FAULTS[fault]
    graph = loaded(activation, normed=normed)
    file = tmp_path / "net.onnx"
    regraft.save(regraft.rewrite(graph).graph, file)
    report = verify(graph, file)
    assert report.passed, report.render()
    model = onnx.load(file)
    damage(model)
    onnx.save(model, file)
    report = verify(graph, file)
    assert not report.passed, report.render()
    assert report.first_divergence == "act#1", report.render()


def test_a_clamp_in_the_models_own_code_is_reached_by_larger_inputs(tmp_path: Path) -> None:
    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.first, self.last = nn.Linear(6, 16), nn.Linear(16, 5)

        def forward(self, x):
            return self.last(torch.relu(self.first(x) * 0.1))  # no module alone holds the ReLU

    graph = regraft.load(Own(), ("2x6",))
    file = tmp_path / "net.onnx"
    regraft.save(regraft.rewrite(graph).graph, file)
    assert verify(graph, file).passed
    model = onnx.load(file)
    clipped(model)
    onnx.save(model, file)
    failed = [row.case for row in verify(graph, file).outputs if not row.passed]
    assert failed == ["N=2, x100"]


def test_a_pair_that_does_not_differ_shows_the_epsilon_of_a_distance(tmp_path: Path) -> None:
    class Distance(nn.Module):
        def forward(self, left, right):
            return torch.nn.functional.pairwise_distance(left, right)

    graph = regraft.load(Distance(), ("2x6", "2x6"))
    file = tmp_path / "net.onnx"
    regraft.save(regraft.rewrite(graph).graph, file)
    assert verify(graph, file).passed
    model = onnx.load(file)
    other_number(1e-6, 1e-7)(model)
    onnx.save(model, file)
    failed = [row.case for row in verify(graph, file).outputs if not row.passed]
    assert failed == ["N=2, x0.0001", "N=2, equal inputs"]


def test_what_no_input_reaches_is_listed() -> None:
    graph = loaded(Function(lambda x: torch.clamp(torch.sigmoid(x), max=6)), normed=True)
    report = verify(graph, graph)
    assert report.passed
    assert report.coverage is not None
    assert report.coverage.unreached == ["`act` never saw a value above 6"]
    assert "not proved: `act` never saw a value above 6" in report.render()
    assert "`act` never saw" in report.render(brief=True).splitlines()[1]


def test_parameters_of_one_name_do_not_keep_values_from_being_seen() -> None:
    graph = loaded(nn.LeakyReLU(), normed=False)
    for parameter in graph.parameters():
        parameter.name = "weight"
    bending = Bending(graph)
    assert bending.note(make_inputs(graph, {"N": 2}))
    assert bending.remark() == []


def test_a_graph_that_does_not_run_by_itself_claims_nothing_of_values() -> None:
    bending = Bending(loaded(nn.ReLU(), normed=False))
    assert not bending.note({"x": np.zeros((2, 7), np.float32)})
    assert bending.remark() == ["which values reached functions that bend: the graph does not run by itself"]
    assert bending.calls() == {}


@pytest.mark.parametrize("batch", [1, 5])
def test_what_is_wrong_at_one_batch_only_is_caught(batch: int, tmp_path: Path) -> None:
    graph = loaded(nn.ReLU(), normed=False)
    file = tmp_path / "net.onnx"
    regraft.save(regraft.rewrite(graph).graph, file)
    model = onnx.load(file)
    add_where_the_batch_is(model, batch)
    onnx.save(model, file)
    report = verify(graph, file)
    assert {row.case.partition(",")[0] for row in report.outputs if not row.passed} == {f"N={batch}"}
    assert not report.passed


def add_where_the_batch_is(model: onnx.ModelProto, batch: int) -> None:
    """The output is one more at that batch."""
    make, name = onnx.helper.make_node, model.graph.output[0].name
    for node in model.graph.node:
        node.output[:] = ["before" if each == name else each for each in node.output]
    model.graph.initializer.append(numpy_helper.from_array(np.array([batch]), "wanted"))
    model.graph.node.extend(
        [
            make("Shape", [model.graph.input[0].name], ["size"], start=0, end=1),
            make("Equal", ["size", "wanted"], ["same"]),
            make("Cast", ["same"], ["more"], to=onnx.TensorProto.FLOAT),
            make("Add", ["before", "more"], [name]),
        ]
    )


class Squeezed(nn.Module):
    def forward(self, x):
        return (x * 2).squeeze() if torch.compiler.is_compiling() or len(x) > 1 else (x * 2)[0]


def test_a_source_that_drops_the_batch_of_one_is_noted_and_not_blamed_on_the_target() -> None:
    graph = regraft.load(Squeezed(), ("2x6",))
    report = verify(graph, graph)
    assert report.passed, report.render()
    assert report.coverage is not None
    assert report.coverage.refused == ["N=1, positive"]
    assert any("it gives `output` the shape [6]" in note for note in report.notes), report.notes


class Logarithm(nn.Module):
    def forward(self, x):
        return torch.log(x)


def test_inputs_on_which_the_source_gives_no_number_prove_nothing_and_are_no_fault() -> None:
    example = torch.rand(2, 6) + 0.5
    graph = regraft.load(Logarithm(), (example,))
    report = verify(graph, graph)
    assert report.passed, report.render()
    assert report.outputs[0].case == "N=2, the example"
