"""Classes that are only called as a layer of the framework: their parameters are not drawn as its."""

from __future__ import annotations

import mindspore as ms
import numpy as np
import pytest
import torch

import regraft
from regraft.ir import parse
from regraft.verification import verify

TORCHS, OWN = torch.nn.Linear, ms.nn.Dense
X = np.ones((2, 4), np.float32)


class Linear(torch.nn.Module):
    """Holds one weight of standard normal values, of any shape."""

    def __init__(self, *shape: int) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(*shape))

    def forward(self, x):
        return x @ self.weight.reshape(4, 3)


def derived(**members: object) -> torch.nn.Module:
    """A class `Linear` that derives from torch's."""
    return type("Linear", (TORCHS,), members)(4, 3)


def zero(self: torch.nn.Linear) -> None:
    torch.nn.init.normal_(self.weight)
    torch.nn.init.zeros_(self.bias)


class Dense(ms.nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.weight = ms.Parameter(ms.Tensor(np.random.default_rng(0).standard_normal((4, 3)), ms.float32))

    def construct(self, x):
        return ms.ops.matmul(x, self.weight)


class Net(ms.nn.Cell):
    def __init__(self, layer: ms.nn.Cell) -> None:
        super().__init__()
        self.layer = layer

    def construct(self, x):
        return ms.ops.tanh(self.layer(x))


def law_of(model: object) -> str:
    graph = regraft.rewrite(regraft.load(model, (X,))).graph
    assert str(parse(str(graph))) == str(graph)
    (law,) = [str(p.initializer) for p in graph.parameters() if p.name.endswith("weight")]
    return law.partition("(")[0]


@pytest.mark.parametrize(
    ("layer", "law"),
    [
        (lambda: Linear(12), "None"),
        (lambda: Linear(4, 3), "None"),
        (lambda: TORCHS(4, 3), "he_uniform"),
        (lambda: derived(), "he_uniform"),
        (lambda: derived(forward=lambda self, x: TORCHS.forward(self, x) * 2), "he_uniform"),
        (lambda: derived(reset_parameters=zero), "None"),
    ],
)
def test_the_law_of_a_torch_class_goes_by_what_it_is(layer: object, law: str) -> None:
    torch.manual_seed(0)
    assert law_of(torch.nn.Sequential(layer(), torch.nn.Tanh()).eval()) == law


@pytest.mark.parametrize(("layer", "law"), [(Dense, "None"), (lambda: OWN(4, 3), "he_uniform")])
def test_the_law_of_a_cell_goes_by_what_it_is(layer: object, law: str) -> None:
    assert law_of(Net(layer())) == law


def test_a_program_that_was_exported_tells_whose_class_it_is(tmp_path) -> None:
    for name, layer, law in (("own", Linear(4, 3), "None"), ("torchs", TORCHS(4, 3), "he_uniform")):
        program = torch.export.export(torch.nn.Sequential(layer, torch.nn.Tanh()).eval(), (torch.ones(2, 4),))
        torch.export.save(program, tmp_path / f"{name}.pt2")
        graph = regraft.rewrite(regraft.load(tmp_path / f"{name}.pt2", None)).graph
        (found,) = [str(p.initializer) for p in graph.parameters() if p.name.endswith("weight")]
        assert found.partition("(")[0] == law, name


class Dropout(ms.nn.Cell):
    """Has a ratio, and computes with it, or hands the work to a layer of its own."""

    def __init__(self, inner: ms.nn.Cell | None = None) -> None:
        super().__init__()
        self.p = 0.5
        self.inner = inner

    def construct(self, x):
        return x * self.p if self.inner is None else self.inner(x)


DERIVED = type("Dropout", (ms.nn.Dropout,), {})


@pytest.mark.parametrize(
    ("layer", "operators"),
    [
        (lambda: Dropout(), ["Mul"]),
        (lambda: Dropout(ms.nn.Dropout(p=0.25)), ["Dropout"]),
        (lambda: ms.nn.Dropout(p=0.25), ["Dropout"]),
        (lambda: DERIVED(p=0.25), ["Dropout"]),
    ],
)
def test_only_a_layer_of_mindspores_drops_by_its_ratio(layer: object, operators: list[str]) -> None:
    graph = regraft.load(Net(layer()), (X,))
    assert [o.op_type for o in graph.operators()] == [*operators, "Tanh"]


class Scaled(ms.nn.Cell):
    """Holds a number by the name that attention's ratio has, and computes with it."""

    def __init__(self) -> None:
        super().__init__()
        self.dropout = 0.5

    def construct(self, x):
        return x * self.dropout


class Halves(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc, self.layer = torch.nn.Linear(4, 3), torch.nn.Identity()

    def forward(self, x):
        return torch.tanh(self.layer(self.fc(x)) * 0.5)


class HalvesPort(ms.nn.Cell):
    def __init__(self, layer: ms.nn.Cell) -> None:
        super().__init__()
        self.fc, self.layer = ms.nn.Dense(4, 3), layer

    def construct(self, x):
        return ms.ops.tanh(self.layer(self.fc(x)))


@pytest.mark.parametrize("layer", [Dropout, Scaled])
def test_a_training_step_leaves_the_numbers_of_the_users_own_class(layer: type[ms.nn.Cell]) -> None:
    graphs = [regraft.load(net, (X,)) for net in (Halves(), HalvesPort(layer()))]
    report = verify(graphs[0], graphs[1], None, own=True, copy=True, train=True)
    assert report.passed, report.render()


def test_a_class_derived_from_a_dropout_drops_nothing_in_the_step_that_is_compared() -> None:
    layer = type("Dropped", (ms.nn.Dropout,), {})(p=0.25)
    source = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Dropout(0.25))
    graphs = [regraft.load(net, (X,)) for net in (source, ms.nn.SequentialCell(ms.nn.Dense(4, 3), layer))]
    report = verify(graphs[0], graphs[1], None, own=True, copy=True, train=True)
    assert "E702" not in report.render()
    assert all(row.passed for row in [*report.training, *report.outputs]), report.render()
    assert layer.p == 0.25


class Rows(ms.nn.Cell):
    def construct(self, x):
        return x.reshape((-1, 12))


@pytest.mark.parametrize("name", ["Rows", "RowsOfBatchNorm"])
def test_only_a_normalisation_of_mindspores_restores_a_shape(name: str) -> None:
    layer = type(name, (Rows,), {})()
    graph = regraft.load(Net(layer), (np.ones((2, 3, 4), np.float32),))
    assert [o.op_type for o in graph.operators()] == ["Reshape", "Tanh"]
