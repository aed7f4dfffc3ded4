"""How far rounding moves what a source computes, and what bounds that gives."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper
from torch import nn

import regraft
from regraft.ir import Builder, Graph, Parameter, TensorData, TensorType, Value, validate
from regraft.verification import Report, verify
from regraft.verification.cases import UNMEASURED
from regraft.verification.conditioning import Cost, Rounding, make_changes
from regraft.verification.runners.select_runner import own_runner

X = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)
X_TORCH = torch.from_numpy(X)


def graph(build: Callable[[Builder, Value], Value]) -> Graph:
    """A graph on an input ``x``, which is its own source."""
    made = Graph("net")
    x = made.add_input("x", TensorType("float32", ("N", 8)))
    made.outputs = [("y", build(Builder(made), x))]
    validate(made)
    return made


def exported(net: nn.Module, folder: Path, *inputs: torch.Tensor) -> tuple[Graph, Path]:
    """A torch module's graph, and what it becomes in ONNX."""
    loaded = regraft.load(net.eval(), inputs)
    regraft.save(regraft.rewrite(loaded).graph, folder / "net.onnx")
    return loaded, folder / "net.onnx"


def verdict(report: Report) -> str:
    return report.summary().partition(":")[0].partition(",")[0]


class TestChanges:
    @pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
    def test_every_element_moves_by_a_unit_or_two(self, dtype: type) -> None:
        x = X.astype(dtype)
        for change in make_changes(1):
            steps = np.abs(change(x) - x) / np.spacing(np.abs(x))
            assert steps.min() >= 0.9
            assert steps.max() <= 2

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_the_unit_of_a_subnormal_number_is_the_least_number(self, dtype: type) -> None:
        least = np.finfo(dtype).smallest_subnormal
        for change in make_changes(1):
            found = change(least * np.array([3, -20, 0], dtype))
            assert set((np.abs(found) / least).tolist()) <= {2, 4, 19, 21, 0}

    def test_integers_masks_and_what_would_overflow_stay(self) -> None:
        kept = np.array([0, 1, -2, 1024, np.inf, -np.inf], np.float32)
        for change in make_changes(4):
            np.testing.assert_array_equal(change(kept), kept)
            assert np.isfinite(change(np.full(8, np.finfo(np.float32).max))).all()
            assert np.isnan(change(np.array([np.nan], np.float32))).all()
            integers = np.arange(4)
            assert change(integers) is integers


class TestRunners:
    def test_weights_are_altered_inside_only(self, tmp_path: Path) -> None:
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8))
        net[0].weight.data.uniform_(0.1, 0.9)
        before = {name: value.clone() for name, value in net.state_dict().items()}
        loaded, _ = exported(net, tmp_path, torch.from_numpy(X))
        runner = own_runner(loaded)
        plain = runner.run({"input": X}).outputs[0][1]
        with runner.altered(make_changes(1)[0]):
            assert not torch.equal(net[0].weight, before["0.weight"])
            moved = runner.run({"input": X}).outputs[0][1]
        assert 0 < np.abs(moved - plain).max() < 1e-5
        with runner.altered(make_changes(1)[0], "1#1"):
            assert torch.equal(net[0].weight, before["0.weight"])
        for name, value in net.state_dict().items():
            assert torch.equal(value, before[name])
        runner.close()


class TestRounding:
    def test_equal_rows_are_not_rounded_as_one(self) -> None:
        """Weights that move shift them together, which a normalisation takes off again."""
        random = np.random.default_rng(4)
        arrays = [random.standard_normal(shape).astype(np.float32) for shape in ((8, 8), (8,))]

        def build(b: Builder, x: Value) -> Value:
            held = [
                b.graph.add_parameter(Parameter(name, name, TensorData.of(array)))
                for name, array in zip("wb", arrays, strict=True)
            ]
            hidden = b.op("Gemm", x, *held)
            return b.op("Sub", hidden, b.op("ReduceMean", hidden, b.constant([0])))

        runner = own_runner(graph(build))
        inputs = {"x": np.zeros_like(X)}
        noise = Rounding(runner, runner.run(inputs), inputs, cost=Cost(4)).output(0).noise
        assert noise is not None
        moved = noise(1)
        assert moved is not None
        assert 1e-8 < moved.max() < 1e-6
        runner.close()


class TestTies:
    @staticmethod
    def choosing(last: float) -> Graph:
        """The place of the largest of 16 numbers, of which two are `last` apart from equal."""
        weights = np.random.default_rng(1).standard_normal((8, 16)).astype(np.float32)
        weights[:, 2:] *= np.float32(0.01)
        weights[:, 1] = weights[:, 0] * np.float32(1 + last)

        def build(b: Builder, x: Value) -> Value:
            held = b.graph.add_parameter(Parameter("w", "w", TensorData.of(weights)))
            return b.op("ArgMax", b.op("MatMul", x, held), axis=1, keepdims=0)

        return graph(build)

    def test_choice_within_rounding_is_neither_different_nor_silent(self) -> None:
        report = verify(*map(self.choosing, (1e-7, -1e-7)), {"x": X})
        assert report.passed, report.render()
        assert any("rounding alone decides" in row.reason for row in report.outputs)

    def test_choice_beyond_rounding_is_different(self) -> None:
        assert not verify(*map(self.choosing, (1e-3, -1e-3)), {"x": X}).passed


class TestVerdicts:
    def test_net_that_rounding_carries_percents_away_is_judged_by_that(self, tmp_path: Path) -> None:
        class Logistic(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.first = nn.Linear(8, 8)

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                x = torch.sigmoid(self.first(x))
                for _ in range(22):
                    x = 3.9 * x * (1 - x)
                return x

        torch.manual_seed(0)
        net = Logistic()
        source, target = exported(net, tmp_path, torch.from_numpy(X))
        report = verify(source, target)
        assert verdict(report) == "equal", report.render()
        noise = report.outputs[0].noise
        assert noise is not None
        assert noise > 1e-4
        assert "its own float32 is from its float64 result" in report.yardstick

    @pytest.mark.parametrize("in_modules", [True, False])
    def test_net_that_rounding_decides_altogether_is_proved_by_its_modules_alone(
        self, in_modules: bool, tmp_path: Path
    ) -> None:
        class Sine(nn.Module):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return torch.sin(30 * x)

        class Net(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(9))
                self.sines = nn.ModuleList(Sine() for _ in range(9))

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                for layer, sine in zip(self.layers, self.sines, strict=True):
                    x = sine(layer(x)) if in_modules else torch.sin(30 * layer(x))
                return x

        torch.manual_seed(0)
        report = verify(*exported(Net(), tmp_path, torch.from_numpy(X)))
        assert verdict(report) == ("equal" if in_modules else "NOT PROVEN"), report.render()
        assert "moved by rounding alone" in report.outputs[0].unproven
        assert not report.differs

    def test_small_results_of_an_elu_are_as_good_as_it(self, tmp_path: Path) -> None:
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(8, 8), nn.ELU(), nn.Linear(8, 4, bias=False))
        with torch.no_grad():
            for value in net[0].parameters():
                value.mul_(1e-3)
        assert verdict(verify(*exported(net, tmp_path, torch.from_numpy(X)))) == "equal"

    def test_float16_net_is_judged_by_float16(self, tmp_path: Path) -> None:
        torch.manual_seed(0)
        net = nn.Sequential(
            nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.Flatten(), nn.Linear(128, 4)
        )
        x = torch.randn(2, 3, 8, 8)
        assert verdict(verify(*exported(net.half(), tmp_path, x.half()))) == "equal"

    @pytest.mark.parametrize(
        ("last", "why"),
        [
            (lambda x: torch.log(-x * x - 1), "nan everywhere"),
            (lambda x: x * 0, "0.0 everywhere"),
            (lambda x: x > 1e9, "False everywhere"),
            (lambda x: torch.softmax(x.mean(1, keepdim=True), 1), "1.0 everywhere"),  # one element at batch 1
            (lambda x: x / 0 * 0, "nan everywhere"),
        ],
    )
    def test_output_of_one_value_proves_nothing(
        self, last: Callable[[torch.Tensor], torch.Tensor], why: str, tmp_path: Path
    ) -> None:
        class Net(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.first = nn.Linear(8, 8)

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return last(self.first(x))

        report = verify(*exported(Net(), tmp_path, torch.from_numpy(X)))
        assert verdict(report) == "NOT PROVEN", report.render()
        assert why in report.summary()
        assert report.to_json()["unproven"] == report.unproven

    def test_output_of_one_value_that_reads_no_input_is_proved_by_it(self, tmp_path: Path) -> None:
        class Tabled(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.first = nn.Linear(8, 8)
                self.register_buffer("table", torch.ones(3))

            def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
                return self.first(x), self.table * 2

        report = verify(*exported(Tabled(), tmp_path, torch.from_numpy(X)))
        assert verdict(report) == "equal", report.render()
        assert report.outputs[1].unproven == "2.0 everywhere"


class TestOtherSources:
    """Sources without float64: rounding is what perturbed runs show."""

    @staticmethod
    def normalised(epsilon: float) -> Graph:
        random = np.random.default_rng(2)
        weights = random.standard_normal((8, 8)).astype(np.float32)
        statistics = [random.uniform(0.5, 1.5, 8).astype(np.float32) for _ in range(4)]

        def build(b: Builder, x: Value) -> Value:
            hidden = b.op("MatMul", x, b.constant(weights))
            return b.op("BatchNormalization", hidden, *map(b.constant, statistics), epsilon=epsilon)

        return graph(build)

    def test_epsilon_of_one_normalisation_is_seen(self) -> None:
        assert verify(self.normalised(1e-5), self.normalised(1e-5), {"x": X}).passed
        report = verify(self.normalised(1e-5), self.normalised(1e-4), {"x": X})
        assert not report.passed
        assert report.outputs[0].noise is not None
        assert report.outputs[0].noise < 1e-5

    def test_weight_scaled_by_a_hundred_thousandth_is_seen(self) -> None:
        def net(factor: float) -> Graph:
            weights = np.random.default_rng(3).standard_normal((2, 8, 8)).astype(np.float32)

            def build(b: Builder, x: Value) -> Value:
                hidden = b.op("Relu", b.op("MatMul", x, b.constant(weights[0])))
                return b.op("MatMul", hidden, b.constant(weights[1] * np.float32(factor)))

            return graph(build)

        assert verify(net(1), net(1), {"x": X}).passed
        assert not verify(net(1), net(1.00001), {"x": X}).passed

    def test_element_types_of_outputs_are_compared_exactly(self) -> None:
        def net(to: int) -> Graph:
            return graph(lambda b, x: b.op("Cast", b.op("Exp", x), to=to))

        float32, float16, float64, int32, int64 = 1, 10, 11, 6, 7
        for right, wrong in ((float16, float32), (float64, float32), (int64, int32)):
            assert verify(net(right), net(right), {"x": X}).passed
            report = verify(net(right), net(wrong), {"x": X})
            assert not report.passed
            assert "expected element type" in report.outputs[0].reason


class TestCost:
    """Measuring takes whole runs of the source, and the first case that differs is the verdict."""

    @staticmethod
    def reports(tmp_path: Path, factor: float = 2.0) -> tuple[Report, Report]:
        """Of a right file, and of one with a multiplied weight."""
        torch.manual_seed(0)
        source, path = exported(nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 3)), tmp_path, X_TORCH)
        right = verify(source, path)
        model = onnx.load(path)
        weight = model.graph.initializer[0]
        weight.CopyFrom(
            numpy_helper.from_array(numpy_helper.to_array(weight) * np.float32(factor), weight.name)
        )
        onnx.save(model, path)
        return right, verify(source, path)

    def test_nothing_is_measured_behind_the_first_case_that_differs(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        measured: list[Rounding] = []
        measure = Rounding._measure

        def noting(self: Rounding, ulps: int) -> object:
            measured.append(self)
            return measure(self, ulps)

        monkeypatch.setattr(Rounding, "_measure", noting)
        right, wrong = self.reports(tmp_path)
        assert right.passed
        assert not wrong.passed
        assert len({row.case for row in wrong.outputs}) > len(("the example", "the case with modules"))
        assert len({id(rounding) for rounding in measured}) <= len(("the example", "the case with modules"))

    @pytest.mark.parametrize(("factor", "is_said"), [(2.0, False), (1.0001, True)])
    def test_it_is_said_where_rounding_may_be_what_is_seen(
        self, factor: float, is_said: bool, tmp_path: Path
    ) -> None:
        right, wrong = self.reports(tmp_path, factor)
        assert not wrong.passed
        assert UNMEASURED not in right.notes
        assert (UNMEASURED in wrong.notes) == is_said

    def test_the_module_is_named_as_before(self, tmp_path: Path) -> None:
        _, wrong = self.reports(tmp_path)
        assert wrong.first_divergence == "0#1"
