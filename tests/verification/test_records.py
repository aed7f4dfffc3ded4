"""What a run records: equal values once, and beyond the budget on disk, with the same report."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import torch

import regraft
from regraft.verification import cases
from regraft.verification.runners import onnx_runner, records
from regraft.verification.runners.records import ValueStore


def values(count: int = 1, dtype: object = np.float32) -> list[np.ndarray]:
    random = np.random.default_rng(0)
    return [random.standard_normal((64, 1024)).astype(dtype) for _ in range(count)]


@pytest.mark.parametrize("budget", [2**30, 0], ids=["memory", "disk"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, ml_dtypes.bfloat16, np.complex64])
def test_a_kept_value_is_the_one_given_whatever_happens_to_that(budget: int, dtype: object) -> None:
    store = ValueStore(budget)
    (array,) = values(dtype=dtype)
    before = array.copy()
    kept = store.keep(array)
    array[...] = 0
    store.release()
    assert kept.dtype == before.dtype
    np.testing.assert_array_equal(kept, before)


@pytest.mark.parametrize("budget", [2**30, 0], ids=["memory", "disk"])
def test_equal_values_are_one(budget: int) -> None:
    store = ValueStore(budget)
    a, b = values(2)
    assert store.keep(a) is store.keep(a.copy())
    assert store.keep(b) is not store.keep(a)
    assert store.keep(a.reshape(1024, 64)) is not store.keep(a)
    assert store.keep(np.asfortranarray(a)) is store.keep(a)


@pytest.mark.parametrize("budget", [2**30, 0], ids=["memory", "disk"])
def test_values_are_equal_by_their_bits(budget: int) -> None:
    store = ValueStore(budget)
    zeros, nans = np.zeros((64, 1024), np.float32), np.full((64, 1024), np.nan, np.float32)
    assert store.keep(zeros) is not store.keep(-zeros)
    assert store.keep(nans) is store.keep(nans.copy())
    one = zeros.copy()
    one[5, 5] = 1  # between the elements by which values are looked up
    assert store.keep(one)[5, 5] == 1
    assert store.keep(one) is not store.keep(zeros)


def test_values_on_disk_share_parts_of_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "_PART", 2**20)
    store, given = ValueStore(0), values(9)
    given.append(np.arange(2**19, dtype=np.float64))  # larger than a part
    kept = [store.keep(array) for array in given]
    assert len(store._maps) == 4
    store.release()
    for array, found in zip(given, kept, strict=True):
        np.testing.assert_array_equal(found, array)


def test_small_and_empty_values_are_kept_too() -> None:
    store = ValueStore(0)
    for array in (np.zeros((0, 3), np.float32), np.array(2.5), np.arange(3)):
        kept = store.keep(array)
        np.testing.assert_array_equal(kept, array)
        assert kept.shape == array.shape


def test_a_value_on_disk_outlives_the_store() -> None:
    store = ValueStore(0)
    (array,) = values()
    kept = store.keep(array)
    store.clear()
    del store
    np.testing.assert_array_equal(kept, array)


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3, padding=1), torch.nn.ReLU(inplace=True))
        self.head = torch.nn.Conv2d(16, 4, 1)

    def forward(self, x):
        y = self.stem(x)
        return self.head(y), y.mean()


def test_a_report_is_the_same_with_values_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = regraft.load(Net().eval(), ("2x3x64x64",))
    target = regraft.rewrite(graph).graph
    in_memory = regraft.verify(graph, target)
    monkeypatch.setattr(records.ValueStore.__init__, "__defaults__", (0,))
    monkeypatch.setattr(onnx_runner, "IN_MEMORY", 0)
    on_disk = regraft.verify(graph, target)
    assert on_disk.modules
    assert on_disk.to_json() == in_memory.to_json()
    assert on_disk.passed


def test_a_batch_whose_values_are_large_is_not_tried_and_that_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch.manual_seed(0)
    graph = regraft.load(Net().eval(), ("2x3x64x64",))
    target = regraft.rewrite(graph).graph
    one = 4 * 16 * 64 * 64  # bytes of an example of the stem
    monkeypatch.setattr(cases, "LARGEST", 4 * one)
    report = regraft.verify(graph, target)
    assert report.passed
    assert {row.case.split(",")[0] for row in report.outputs} == {"N=1", "N=2"}
    assert {row.case for row in report.outputs} >= {"N=2, x10", "N=2, +3", "N=2, sparse", "N=2, data-like"}
    assert "N=5 was not tried: one value takes 1 MB there" in report.notes
    assert report.coverage is not None
    assert report.coverage.refused == []  # the source would run there
    assert "N=5, which was left out as too large" in report.coverage.line()
    monkeypatch.setattr(cases, "LARGEST", 5 * one)
    assert "too large" not in regraft.verify(graph, target).coverage.line()


def test_boundaries_are_asked_for_in_groups_that_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = regraft.load(Net().eval(), ("2x3x64x64",))
    asked: list[int] = []
    original = onnx_runner.Slices.with_outputs

    def with_outputs(self, names):
        asked.append(len(names))
        return original(self, names)

    monkeypatch.setattr(onnx_runner.Slices, "with_outputs", with_outputs)
    runner = onnx_runner.OnnxRunner(regraft.rewrite(graph).graph)
    feeds = {"x": np.zeros((2, 3, 64, 64), np.float32)}
    whole = runner.run(feeds)
    assert len(asked) == 1
    monkeypatch.setattr(onnx_runner, "IN_MEMORY", 4 * 2 * 16 * 64 * 64)  # one value of the stem
    parts = runner.run(feeds)
    assert len(asked[1:]) == asked[0]
    for call, record in whole.calls.items():
        for a, b in zip(record.outputs, parts.calls[call].outputs, strict=True):
            np.testing.assert_array_equal(a, b)
