"""Which parameters a comparison would notice: measured by changing them, not by their being there."""

from typing import Any

import numpy as np
import pytest
import torch

import regraft
from regraft.ir import Builder, Graph, Parameter, TensorData, TensorType
from regraft.verification import verify
from regraft.verification.coverage import Coverage, Sensitivity
from regraft.verification.sensitivity.measuring import Measuring

nn = torch.nn


def covered(net: nn.Module, *shapes: str) -> Coverage:
    graph = regraft.load(net, shapes)
    report = verify(graph, graph)
    assert report.passed, report.render()
    assert report.coverage is not None
    return report.coverage


class Residual(nn.Module):
    """A branch whose last normalisation starts at zero, as residual nets are often trained."""

    def __init__(self, gamma: float) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.stem = nn.Conv2d(3, 8, 3)
        self.conv = nn.Conv2d(8, 8, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(8)
        self.norm.running_mean.normal_()
        self.norm.running_var.uniform_(0.5, 2)
        nn.init.constant_(self.norm.weight, gamma)
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        y = self.stem(x)
        return self.head((y + self.norm(self.conv(y))).mean((2, 3)))


def test_every_parameter_and_statistic_of_a_plain_net_moves_an_output() -> None:
    assert covered(Residual(1.0), "2x3x8x8").sensitivity == Sensitivity(9, 9)


class OwnStatistics(nn.Module):
    """Normalisations by functions, with statistics of other names than torch's."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.stem = nn.Conv2d(3, 4, 3)
        for name in ("m", "n"):
            self.register_buffer(name, torch.randn(4))
            self.register_buffer(f"{name}2", torch.rand(4) + 0.5)
        self.gamma = nn.Parameter(torch.rand(4) + 0.5)

    def forward(self, x):
        y = torch.nn.functional.batch_norm(self.stem(x), self.m, running_var=self.m2, weight=self.gamma)
        y = torch.batch_norm(y.relu(), None, None, self.n, self.n2, False, 0.1, 1e-5, False)
        return y.mean((2, 3))


def test_statistics_of_any_name_that_functions_are_given_have_no_gradient_and_move_outputs() -> None:
    coverage = covered(OwnStatistics(), "2x3x8x8")
    assert coverage.sensitivity == Sensitivity(7, 7)


def test_behind_a_gamma_of_zeros_a_module_alone_proves_weights_and_nothing_proves_statistics() -> None:
    found = covered(Residual(0.0), "2x3x8x8").sensitivity
    assert found is not None
    assert found.alone == ["conv.weight"]
    assert found.unnoticed == ["norm.running_mean", "norm.running_var"]
    assert found.moved == 6  # gamma and beta of the normalisation too: they are added to


class Attention(nn.Module):
    """The bias of the keys moves every score of a query alike, which a softmax does not see."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.q, self.k, self.v = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 6)
        nn.init.normal_(self.k.bias)

    def forward(self, x):
        scores = self.q(x) @ self.k(x).transpose(1, 2)
        return torch.softmax(scores, -1) @ self.v(x)


def test_a_bias_that_the_function_cannot_see_is_proved_by_its_module_only() -> None:
    coverage = covered(Attention(), "2x5x6")
    assert coverage.sensitivity is not None
    assert coverage.sensitivity.alone == ["k.bias"]
    assert coverage.sensitivity.unnoticed == []
    assert "5 of 6 parameters moved an output" in coverage.line()
    assert "not proved: `k.bias` moved no output, only the results of a module alone" in coverage.line()


class Frozen(nn.Module):
    """A frozen table with a padding row, masks, a buffer, and a layer that never runs."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table = nn.Embedding(9, 4, padding_idx=0)
        self.table.weight.requires_grad_(False)
        self.register_buffer("scale", torch.full((4,), 0.5))
        self.register_buffer("mask", torch.full((5, 5), -torch.inf).triu(3))
        self.register_buffer("seen", torch.ones(5, 5).tril())
        self.idle = nn.Linear(4, 4)

    def forward(self, ids):
        x = self.table(ids) * self.scale
        scores = (x @ x.transpose(1, 2) + self.mask).masked_fill(self.seen == 0, -1e4)
        return torch.softmax(scores, -1) @ x


def test_frozen_tables_padding_rows_and_masks_are_measured_and_what_never_runs_is_not() -> None:
    net = Frozen()
    assert covered(net, "2x5:int64").sensitivity == Sensitivity(4, 4)
    assert [p.requires_grad for p in net.parameters()] == [False, True, True]
    assert all(p.grad is None for p in net.parameters())
    assert not net.scale.requires_grad
    assert bool((net.seen == torch.ones(5, 5).tril()).all())


class Behind(nn.Module):
    """Branches behind factors of zero; what is behind two of them reads both, and cancels equal ones."""

    def __init__(self, layer: nn.Module, *others: nn.Module) -> None:
        super().__init__()
        self.layer, self.others = layer, nn.ModuleList(others)
        self.register_buffer("off", torch.zeros(1))

    def forward(self, x):
        y = self.layer(x)
        for other in self.others:
            y = y - other(x)
        return x.flatten(1).sum(1) + self.off * y.flatten(1).sum(1)


class Quiet(nn.Module):
    """A layer whose parameters move nothing: its values are far below what is added to them."""

    def __init__(self) -> None:
        super().__init__()
        self.small = nn.Parameter(torch.full((4,), 1e-12))

    def forward(self, x):
        return x + self.small


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.Linear(4, 700), "2x3x4"),
        (nn.Linear(200, 90, bias=False), "2x200"),
        (nn.Conv1d(4, 6, 3, stride=2, padding=1), "2x4x9"),
        (nn.Conv2d(32, 32, 3, groups=32, padding="same", dilation=2), "2x32x9x9"),
        (nn.Conv2d(8, 12, 3, groups=4), "2x8x6x6"),
        (nn.Conv2d(3, 24, 3, padding=1, padding_mode="reflect"), "2x3x6x6"),
        (nn.Conv3d(2, 3, 2), "2x2x4x4x4"),
        (nn.LayerNorm(4), "2x4"),
    ],
    ids=str,
)
def test_each_parameter_of_a_layer_that_no_output_shows_is_noticed_in_the_layer(layer, shape) -> None:
    found = covered(Behind(layer), shape).sensitivity
    assert found is not None
    assert found.alone == [f"layer.{name}" for name, _ in layer.named_parameters()]


def test_a_bias_of_zeros_and_a_weight_of_zeros_are_noticed_in_the_layer() -> None:
    layer = nn.Linear(4, 90)
    nn.init.zeros_(layer.bias)
    nn.init.zeros_(layer.weight)
    found = covered(Behind(layer), "2x4").sensitivity
    assert found is not None
    assert found.alone == ["layer.weight", "layer.bias"]


def test_an_output_that_hides_a_layer_keeps_its_parameters_from_being_noticed_in_it() -> None:
    layer = nn.Linear(4, 90)
    layer.register_forward_hook(lambda _module, _given, result: result * 0)
    found = covered(Behind(layer), "2x4").sensitivity
    assert found is not None
    assert found.unnoticed == ["off", "layer.weight", "layer.bias"]


def test_parameters_that_move_nothing_in_any_module_around_them_are_named_each() -> None:
    layers = nn.Sequential(*(Quiet() for _ in range(4)))
    found = covered(Behind(layers), "2x4").sensitivity
    assert found is not None
    assert found.unnoticed == [f"layer.{at}.small" for at in range(4)]


class Tail(nn.Module):
    """A parameter beside values of a size at which its changes count for nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.small = nn.Parameter(torch.full((4,), 1e-5))

    def forward(self, x):
        return torch.cat([x, self.small.expand(x.shape[0], 4)], 1)


class Difference(nn.Module):
    """The amplified difference of equal parameters, in which equal changes of both would cancel."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = Tail(), Tail()

    def forward(self, x):
        return x + 1e6 * (self.a(x)[:, 4:] - self.b(x)[:, 4:])


def test_equal_parameters_changed_at_once_do_not_cancel_each_other() -> None:
    found = covered(Behind(Difference()), "2x4").sensitivity
    assert found is not None
    assert found.alone == ["layer.a.small", "layer.b.small"]


class Lending(nn.Module):
    """A layer whose parameter only the code around it reads, or its own code where that shows nothing."""

    def __init__(self, *, lent: bool) -> None:
        super().__init__()
        self.holder = Holder(read=not lent)
        self.lent = lent

    def forward(self, x):
        y = self.holder(x)
        return y * self.holder.scale if self.lent else y


class Holder(nn.Module):
    def __init__(self, *, read: bool) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.full((4,), 1.5))
        self.read = read

    def forward(self, x):
        return x + torch.clamp(self.scale, 7.0, 8.0) if self.read else x + 1


@pytest.mark.parametrize(("lent", "tried"), [(True, {"layer", "layer.holder"}), (False, {"layer.holder"})])
def test_what_moves_nothing_where_alone_it_is_read_is_not_tried_in_modules_around(
    lent: bool, tried: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    measure = Measuring._find_move

    def measured(self: Measuring, call: str, *given: Any) -> float | None:
        calls.append(call)
        return measure(self, call, *given)

    monkeypatch.setattr(Measuring, "_find_move", measured)
    found = covered(Behind(Lending(lent=lent)), "2x4").sensitivity
    assert found is not None
    assert (
        (found.alone, found.unnoticed) == (["layer.holder.scale"], [])
        if lent
        else ([], ["layer.holder.scale"])
    )
    assert {call.partition("#")[0] for call in calls} == tried


class Odd(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        raise RuntimeError("no way back")


class NoWayBack(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 4)

    def forward(self, x):
        return Odd.apply(self.fc(x))


def test_a_net_without_gradients_is_measured_module_by_module_and_that_is_said() -> None:
    coverage = covered(NoWayBack(), "2x3")
    assert coverage.sensitivity is not None
    assert (coverage.sensitivity.moved, coverage.sensitivity.alone) == (0, ["fc.weight", "fc.bias"])
    assert "2 of 2 parameters moved their module's values" in coverage.line()
    assert "no way back" in coverage.line()


def test_a_net_without_parameters_says_nothing_of_them() -> None:
    assert "parameters" not in covered(nn.Sequential(nn.ReLU()), "2x3").line()


def chain(layers: int) -> Graph:
    """A graph without a framework: biases one after the other, the first of them times zero."""
    graph = Graph()
    b = Builder(graph)
    root = graph.modules.add("Chain")
    with b.inside(graph.modules.add_call(root)):
        x = graph.add_input("x", TensorType("float32", ("N", 4)))
        for at in range(layers):
            data = TensorData.of(np.full(4, 0.5 + at, np.float32))
            bias = graph.add_parameter(Parameter(f"b{at}", f"b{at}", data))
            graph.modules.module(root).parameters[f"b{at}"] = bias.node
            x = b.op("Add", x, bias if at else b.op("Mul", bias, b.constant(np.zeros(4, np.float32))))
    graph.outputs = [("y", x)]
    return graph


@pytest.mark.parametrize("layers", [5, 60])
def test_a_source_that_is_a_graph_is_measured_by_runs_of_some_of_its_parameters(layers: int) -> None:
    report = verify(chain(layers), chain(layers))
    assert report.coverage is not None
    found = report.coverage.sensitivity
    assert found is not None
    assert found.unnoticed == ["b0"]
    assert found.moved == found.parameters - 1
    assert found.parameters == (5 if layers == 5 else 20)
    assert ("were not tried" in found.unmeasured) == (layers == 60)


def test_a_report_in_json_holds_the_coverage() -> None:
    graph = regraft.load(Residual(0.0), ("2x3x8x8",))
    found = verify(graph, graph).to_json()["coverage"]
    assert isinstance(found, dict)
    assert found["batches"] == [1, 2, 5]
    assert found["draws"] == ["normal", "x10", "+3", "sparse", "data-like", "positive"]
    assert found["sensitivity"]["unnoticed"] == ["norm.running_mean", "norm.running_var"]
