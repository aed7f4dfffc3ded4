"""Verdicts with a certificate: the first line says how equality is known, and nothing real is overruled."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from torch import nn

import regraft
from regraft.api.targets import rewrite_file
from regraft.ir import Graph
from regraft.verification import ModuleRow, OutputRow, Report
from regraft.verification.certificate.verdict import Certificate, is_open, make_certificate, settle
from regraft.verification.structure.report import Structure, ValueRow


class Small(nn.Module):
    def __init__(self, norm: bool = True) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.norm = nn.BatchNorm2d(4) if norm else nn.Identity()
        self.head = nn.Linear(4, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.relu(self.norm(self.conv(x))).mean((2, 3)))


class Of(nn.Module):
    """A function of a layer's result."""

    def __init__(self, function: Callable[[torch.Tensor], object]) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 6)
        self.function = function

    def forward(self, x: torch.Tensor) -> object:
        return self.function(self.layer(x))


class EqualLogits(nn.Module):
    """Two layers that add up the same products in another order, so large that rounding decides."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = nn.Linear(16, 6), nn.Linear(16, 6)
        self.other.weight.data = self.one.weight.data.flip(1).clone()
        self.other.bias.data = self.one.bias.data.clone()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(torch.stack([self.one(x), self.other(x.flip(-1))], -1) * 1e8, -1)


torch.manual_seed(0)  # other weights reach both sides of a saturation
UNDECIDED = {
    "nan": (Of(lambda y: torch.log(-torch.relu(y) - 1)), (3, 8)),
    "saturated": (Of(lambda y: torch.sigmoid(y * 1e6 - 1e7)), (3, 8)),
    "never": (Of(lambda y: y.abs() < -1), (3, 8)),
    "equal logits": (EqualLogits(), (4, 16)),
}


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


def written(graph: Graph, out: Path, to: str = "onnx", **options: Any) -> Report:
    _, report = rewrite_file(graph, regraft.rewrite(graph), out, to, force=True, **options)
    assert report is not None
    return report


def test_the_first_line_says_how_it_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    x = torch.randn(2, 3, 8, 8)
    folded = written(regraft.load(Small().eval(), (x,)), tmp_path / "m.onnx", certificate=True)
    assert folded.summary().startswith("equal, exactly as read but for 2 rounded constants: 8 outputs and ")
    assert folded.certificate is not None
    assert (folded.certificate.grade, folded.certificate.constants) == ("folded", 2)
    assert folded.certificate.units <= 0.5
    told = folded.to_json()["certificate"]
    assert isinstance(told, dict)
    assert list(told) == ["grade", "why", "constants", "units", "axioms", "seconds"]
    graph = regraft.load(Small(norm=False).eval(), (x,))
    plain = written(graph, tmp_path / "p.onnx", certificate=True)
    assert plain.summary().startswith("equal, exactly as read: 8 outputs and ")
    for without in (False, None):  # in tests nobody asks for it
        report = regraft.verify(graph, tmp_path / "p.onnx", certificate=without)
        assert report.summary().startswith("equal: 8 outputs and ")
        assert report.to_json()["certificate"] is None
    assert regraft.verify(graph, tmp_path / "p.onnx", certificate=True).certificate is not None
    assert not list((tmp_path / "temporary").glob("regraft*/certificate*"))


def test_training_is_not_said_to_be_exact(tmp_path: Path) -> None:
    graph = regraft.load(Small(), (torch.randn(2, 3, 8, 8),))
    written(graph, tmp_path / "t", "torch")
    report = regraft.verify(graph, tmp_path / "t", train=True, certificate=True)
    assert report.passed
    assert report.summary().startswith("equal: ")


@pytest.mark.parametrize("name", UNDECIDED)
def test_what_no_run_shows_is_settled(tmp_path: Path, name: str) -> None:
    net, shape = UNDECIDED[name]
    graph = regraft.load(net.eval(), (torch.randn(shape),))
    out = tmp_path / "m.onnx"
    regraft.save(regraft.rewrite(graph), out)
    without = regraft.verify(graph, out, certificate=False)
    assert without.verdict == "unproven", without.summary()
    report = regraft.verify(graph, out, certificate=True)
    assert report.verdict == "equal", report.render()
    assert report.summary().startswith("equal, exactly as read: ")
    assert "; no run shows `output` (" in report.summary()
    assert "largest error" not in report.summary()


def test_a_fault_that_no_run_shows_stays_unproven(tmp_path: Path) -> None:
    graph = regraft.load(UNDECIDED["saturated"][0].eval(), (torch.randn(3, 8),))
    out = tmp_path / "m.onnx"
    regraft.save(regraft.rewrite(graph), out)
    change(out, 1e7, 2e7)
    report = regraft.verify(graph, out, certificate=True)
    assert report.verdict == "unproven"
    assert report.certificate is not None
    assert not report.certificate.passed


def test_a_fault_below_the_tolerance_is_equal_but_not_exactly(tmp_path: Path) -> None:
    net = Of(lambda y: y * 3.0).eval()
    graph = regraft.load(net, (torch.randn(3, 8),))
    out = tmp_path / "m.onnx"
    regraft.save(regraft.rewrite(graph), out)
    assert regraft.verify(graph, out, certificate=True).summary().startswith("equal, exactly")
    change(out, 3.0, float(np.nextafter(np.float32(3.0), np.float32(4.0))))
    report = regraft.verify(graph, out, certificate=True)
    assert report.verdict == "equal"
    assert report.summary().startswith("equal: ")


def change(path: Path, old: float, new: float) -> None:
    """Put another number in the place of one of a file's constants."""
    model, count = onnx.load(path), 0
    tensors = [
        *model.graph.initializer,
        *(a.t for n in model.graph.node for a in n.attribute if a.HasField("t")),
    ]
    for tensor in tensors:
        array = onnx.numpy_helper.to_array(tensor)
        if array.dtype == np.float32 and (array == np.float32(old)).any():
            changed = np.where(array == np.float32(old), np.float32(new), array)
            tensor.CopyFrom(onnx.numpy_helper.from_array(changed.astype(np.float32), tensor.name))
            count += 1
    assert count
    onnx.save(model, path)


ROW = OutputRow("y", "N=1", (2, 3), 3e-6, 3e-6, 1e-6, False, "3e-06 apart", 2e-7)
GOOD = OutputRow("y", "N=1", (2, 3), 1e-8, 1e-8, 1e-6, True)
CALL = ModuleRow("a#0", "A", 3e-6, 3e-6, 1e-6, passed=False, reason="at its boundary", noise=2e-7)
EXACT = Certificate("algebraic", [], 0, 0.0, [], 0.1)


def test_what_a_certificate_settles_and_what_never() -> None:
    def with_(*rows: OutputRow, modules: tuple[ModuleRow, ...] = (), **more: object) -> Report:
        return Report("a", "b", "", list(rows), list(modules), **more)  # type: ignore[arg-type]

    nan = float("nan")
    alone = replace(CALL, max_abs=1e-8, isolated_max_abs=2e-6, isolated_tolerance=1e-6, isolated_passed=False)
    settled = [
        with_(ROW),
        with_(GOOD, unproven={"y": "nan everywhere"}),
        with_(ROW, modules=(CALL,), first_divergence="a#0"),
        with_(GOOD, modules=(alone,), first_divergence="a#0"),
    ]
    never = [
        with_(replace(ROW, max_abs=5e-6)),  # beyond what rounding explains
        with_(replace(ROW, noise=None)),  # nothing was measured
        with_(replace(ROW, max_abs=nan, tolerance=0.0, reason="expected shape [2], got [3]")),
        with_(replace(ROW, max_abs=5e-7, reason="the source's, rounded to float16")),  # another type
        with_(replace(ROW, max_abs=1.0, tolerance=0.0, noise=None, reason="1 of 6 elements differ")),
        with_(ROW, replace(ROW, name="z", max_abs=1.0)),  # all or nothing
        with_(GOOD, modules=(replace(CALL, max_abs=1.0),)),
        with_(GOOD, modules=(replace(alone, isolated_max_abs=1.0),)),
        with_(GOOD, modules=(replace(alone, max_abs=1.0),)),
        with_(ROW, structure=Structure(values=[ValueRow("w", "w", ((2,), (2,)), 0.1)])),
        with_(ROW, nodes=[replace(CALL, call="node")]),
        with_(replace(GOOD, shape=(0,))),  # without elements
    ]
    for report in settled:
        assert not report.passed
        assert is_open(report)
        after = settle(report, EXACT)
        assert after.verdict == "equal", after.render()
        assert after.first_divergence is None
        assert after.summary().startswith("equal, exactly as read: ")
        for grade in ("tested", "different"):
            assert settle(report, replace(EXACT, grade=grade)).verdict == report.verdict
    for report in never:
        assert not is_open(report)
        after = settle(report, EXACT)
        assert (after.verdict, after.summary()) == (report.verdict, report.summary())
        assert after.outputs == report.outputs


def test_it_is_given_up_behind_its_time() -> None:
    graph = regraft.load(Small().eval(), (torch.randn(2, 3, 8, 8),))
    assert make_certificate(graph, lambda: graph, lambda g: None, 10.0)[0] is not None
    assert make_certificate(graph, lambda: graph, lambda g: None, 0.0) == (None, "")


@pytest.mark.parametrize("keyed", [True, False])
def test_keys_pair_outputs_and_places_those_without(keyed: bool) -> None:
    two = regraft.load(Of(lambda y: {"a": y, "b": y + 1}).eval(), (torch.randn(2, 8),))
    assert two.origin.keyed
    other = two.copy()
    two.origin.keyed = keyed
    other.outputs = other.outputs[::-1]
    found, _ = make_certificate(two, lambda: other, lambda g: None, 10.0)
    assert found is not None
    assert found.grade == ("identical" if keyed else "different")


class Gate(nn.Module):
    def __init__(self, low: float = -1e9, bound: float = 50.0, otherwise: bool = False) -> None:
        super().__init__()
        self.low, self.bound, self.otherwise = low, bound, otherwise

    def forward(self, y: torch.Tensor) -> torch.Tensor:
        gates = torch.softmax(y.masked_fill(y > 1, self.low), -1)
        if self.otherwise:
            return -torch.maximum(-gates * y, torch.tensor(-self.bound))
        return (y * gates).clamp(max=self.bound)


class Port(nn.Module):
    def __init__(self, **numbers: Any) -> None:
        super().__init__()
        self.layer, self.gate, self.head = nn.Linear(8, 6), Gate(**numbers), nn.Linear(6, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.gate(self.layer(x)))


class Rounded(nn.Module):
    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.layer, self.dtype = nn.Linear(8, 6), dtype

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x).to(self.dtype).float() + x[:, :6]


def test_the_type_that_values_are_rounded_to_is_a_setting() -> None:
    """Compare what rounding to few digits hides from every number."""
    x, half = (torch.randn(3, 8),), Rounded(torch.float16).eval()
    wrong = regraft.verify(half, Rounded(torch.bfloat16).eval(), x)
    assert wrong.summary().startswith("DIFFERENT in 1 setting: ")
    assert "dtype float16 against bfloat16" in wrong.render()
    right = regraft.verify(half, Rounded(torch.float16).eval(), x, certificate=True)
    assert right.summary().startswith("equal, exactly as read: "), right.render()


def test_nets_that_were_written_apart() -> None:
    x = (torch.randn(3, 8),)
    right = regraft.verify(Port().eval(), Port(otherwise=True).eval(), x, certificate=True)
    assert right.summary().startswith("equal, exactly as read: "), right.render()
    assert right.certificate is not None
    assert right.certificate.grade == "algebraic"
    assert not any("exactly" in note for note in right.notes)
    for numbers, told in (
        ({"low": -1e4}, "operand of `Where` -1e+09 against -10000 - at "),
        ({"bound": 80.0}, "operand of `Min` 50 against 80 - at "),
    ):
        wrong = regraft.verify(Port().eval(), Port(**numbers).eval(), x, certificate=True)
        assert wrong.summary().startswith("equal: "), wrong.render()  # no input that was tried shows it
        assert wrong.notes[0].startswith(f"not exactly equal, as they were read: {told}")
        assert "test_certified_verdicts.py:" in wrong.notes[0]
        without = regraft.verify(Port().eval(), Port(**numbers).eval(), x)
        assert without.certificate is None
        assert not any("exactly" in note for note in without.notes)
    trained = regraft.verify(Port(), Port(), x, train=True, certificate=True)
    assert trained.summary().startswith("equal: ")
    apart = regraft.verify(Port().eval(), Port().eval(), x, copy=False, certificate=True)
    assert not apart.passed


def test_sizes_by_data_need_no_certificate(tmp_path: Path) -> None:
    x, net = torch.randn(9, 8), Of(lambda y: y[y[:, 0] > 0])
    graph = regraft.load(net, (x,), dynamic_batch=False)
    regraft.save(regraft.rewrite(graph).graph, tmp_path / "net.onnx", to="onnx")
    assert regraft.verify(graph, tmp_path / "net.onnx").certificate is None
    asked = regraft.verify(graph, tmp_path / "net.onnx", certificate=True).certificate
    assert asked is not None
    assert asked.grade == "tested"
