"""How far apart two arrays are, and how far they may be."""

import json
import math

import numpy as np
import pytest

from regraft.verification import ModuleRow, OutputRow, Report, Yardstick, compare
from regraft.verification.compare import Noise, Types
from regraft.verification.extents import measure_extent
from regraft.verification.modules import match

NORMAL = np.random.default_rng(0).standard_normal((4, 5)).astype(np.float32)


def test_equal_arrays_pass() -> None:
    found = compare(NORMAL, NORMAL.copy())
    assert found.passed
    assert found.max_abs == 0
    assert not found.reason


@pytest.mark.parametrize(
    ("source", "target", "why"),
    [
        (NORMAL, NORMAL[:3], "expected shape [4, 5], got [3, 5]"),
        (NORMAL, NORMAL.astype(np.int64), "expected element type float32, got int64"),
        (NORMAL > 0, NORMAL, "expected element type bool"),
        (np.array([1.0, np.nan]), np.array([1.0, 2.0]), "1 of 2 elements are NaN on one side only"),
        (np.array([1.0, 2.0]), np.array([1.0, np.inf]), "1 of 2 elements are infinite on one side only"),
        (np.array([1.0, np.inf]), np.array([1.0, -np.inf]), "opposite sign"),
        (np.array([1, 2, 3]), np.array([1, 2, 4]), "1 of 3 elements differ"),
        (np.array([True, False]), np.array([True, True]), "1 of 2 elements differ"),
        (np.array([1 + 1j]), np.array([1 - 1j]), "apart"),
    ],
)
def test_difference_fails_with_the_reason(source: np.ndarray, target: np.ndarray, why: str) -> None:
    found = compare(source, target)
    assert not found.passed
    assert why in found.reason


def test_equal_non_finite_patterns_pass() -> None:
    array = np.array([1.0, np.nan, np.inf, -np.inf], np.float32)
    assert compare(array, array.copy()).passed


def test_integers_of_another_width_are_the_same_kind() -> None:
    assert compare(np.array([1, 2], np.int64), np.array([1, 2], np.int32)).passed


@pytest.mark.parametrize("types", ["exact", "floats"])
def test_width_of_a_float_is_a_difference_where_types_are_compared(types: Types) -> None:
    wider = compare(NORMAL, NORMAL.astype(np.float64), Yardstick(types=types))
    assert not wider.passed
    assert wider.reason == "expected element type float32, got float64"
    integers = compare(np.array([1, 2], np.int64), np.array([1, 2], np.int32), Yardstick(types=types))
    assert integers.passed is (types == "floats")
    assert "int64" in integers.reason


@pytest.mark.parametrize(
    ("array", "why"),
    [
        (np.zeros((2, 3), np.float32), "0.0 everywhere"),
        (np.full((2, 3), 3.0, np.float32), "3.0 everywhere"),
        (np.full((2, 3), np.nan, np.float32), "nan everywhere"),
        (np.full((2, 3), np.inf, np.float32), "no finite element"),
        (np.ones((2, 3), bool), "True everywhere"),
        (np.zeros((0, 3), np.float32), "no elements"),
    ],
)
def test_constant_arrays_agree_and_prove_nothing(array: np.ndarray, why: str) -> None:
    found = compare(array, array.copy())
    assert found.passed
    assert found.unproven == why
    assert found.reason == f"proves nothing: {why}"


def test_without_a_measure_the_tolerance_is_relative_to_the_largest_value() -> None:
    scale = float(np.abs(NORMAL).max())
    assert compare(NORMAL, NORMAL + np.float32(0.5e-4 * scale)).passed
    assert not compare(NORMAL, NORMAL + np.float32(2e-4 * scale)).passed


@pytest.mark.parametrize(("scale", "passed"), [(1e-38, True), (1e-30, False)])
def test_numbers_that_runtimes_take_for_zeros_may_differ_and_prove_nothing(
    scale: float, passed: bool
) -> None:
    steady = Yardstick(noise=lambda _: np.zeros_like(NORMAL))
    found = compare(NORMAL * np.float32(scale), np.zeros_like(NORMAL), steady)
    assert found.passed is passed
    assert bool(found.unproven) is passed


def test_float64_result_is_a_sharper_yardstick() -> None:
    exact = NORMAL.astype(np.float64)
    slightly = NORMAL * np.float32(1 + 1e-5)
    assert compare(NORMAL, slightly).passed
    assert not compare(NORMAL, slightly, Yardstick(lambda: exact)).passed
    # and a fair one: a source that is itself that far from the truth allows its target as much
    assert compare(NORMAL, slightly, Yardstick(lambda: exact * (1 + 0.5e-5))).passed


def test_float64_result_of_another_function_excuses_nothing() -> None:
    assert not compare(NORMAL, NORMAL * 1.5, Yardstick(lambda: NORMAL.astype(np.float64) * 1.5)).passed


class TestNoise:
    @staticmethod
    def of(move: float, jumps: float | None = None) -> Noise:
        """Rounding that moves every element by `move` a unit; `jumps`: the first one, from two units on."""

        def noise(ulps: int) -> np.ndarray:
            found = np.full(NORMAL.shape, move * ulps)
            if jumps is not None and ulps > 1:
                found[0, 0] = jumps
            return found

        return noise

    def test_bound_is_a_multiple_of_it(self) -> None:
        for move in (1e-6, 1e-5, 1e-3):
            close = compare(NORMAL, NORMAL + np.float32(3 * move), Yardstick(noise=self.of(move), ulps=2))
            assert close.passed
            far = compare(NORMAL, NORMAL + np.float32(9 * move), Yardstick(noise=self.of(move), ulps=2))
            assert not far.passed
            assert far.noise == move

    def test_is_not_measured_within_a_few_units(self) -> None:
        def noise(_: int) -> np.ndarray:
            raise AssertionError

        assert compare(NORMAL, NORMAL * np.float32(1 + 2e-7), Yardstick(noise=noise, ulps=4)).passed

    def test_float64_result_that_is_far_off_is_used_where_noise_explains_it(self) -> None:
        exact = NORMAL.astype(np.float64) * 1.04
        target = NORMAL * np.float32(1.05)
        chaotic = compare(NORMAL, target, Yardstick(lambda: exact, self.of(0.02)))
        assert chaotic.passed
        assert chaotic.reason == "the source's own float32 is 4 % from its float64 result"
        assert not compare(NORMAL, target, Yardstick(lambda: exact, self.of(1e-6))).passed

    def test_that_reaches_across_all_values_proves_nothing(self) -> None:
        found = compare(NORMAL, -NORMAL, Yardstick(noise=self.of(2.0)))
        assert found.passed
        assert found.unproven == "moved by rounding alone as far as its values differ"

    def test_of_a_random_source_fails(self) -> None:
        found = compare(NORMAL, NORMAL + 1, Yardstick(noise=lambda _: np.full(NORMAL.shape, np.nan)))
        assert not found.passed
        assert "the source draws random numbers" in found.reason

    def test_an_element_that_jumps_does_not_loosen_the_others(self) -> None:
        jumped, other = NORMAL.copy(), NORMAL.copy()
        jumped[0, 0] += 1
        other[1, 1] += 1
        by = Yardstick(noise=self.of(1e-7, jumps=1.0))
        found = compare(NORMAL, jumped, by)
        assert found.passed
        assert found.reason == "1 of 20 elements differ where rounding alone decides, in the source too"
        assert not compare(NORMAL, other, by).passed

    def test_that_moves_equal_elements_to_anywhere_decides_nothing(self) -> None:
        """Equal logits of 1e8 before a softmax: whichever rounds up is 1, and the others are 0."""
        source, target = np.full(8, 0.125, np.float32), np.eye(8, dtype=np.float32)[3]
        chaotic = Yardstick(noise=lambda ulps: np.full(8, 0.01 if ulps == 1 else 0.3))
        found = compare(source, target, chaotic)
        assert found.passed
        assert found.unproven == "decided by rounding alone"
        steady = Yardstick(noise=lambda ulps: np.full(8, 1e-6 * ulps))
        assert not compare(source, target, steady).passed
        some_stand = Yardstick(noise=lambda ulps: np.where(np.arange(8) < 4, 0.3 * (ulps > 1), 1e-6))
        assert not compare(source, target, some_stand).passed
        apart = np.linspace(0, 1, 8, dtype=np.float32)  # values that are told from each other
        assert not compare(apart, target, chaotic).passed

    def test_integers_may_differ_only_where_rounding_decides(self) -> None:
        source = np.array([3, 1, 4, 1])
        by = Yardstick(noise=lambda _: np.array([0.0, 1.0, 0.0, 0.0]))
        tie = compare(source, np.array([3, 2, 4, 1]), by)
        assert tie.passed
        assert tie.reason == "1 of 4 elements differ where rounding alone decides, in the source too"
        assert not compare(source, np.array([3, 2, 4, 2]), by).passed


def test_match_pairs_by_shape_then_by_value() -> None:
    a, b = np.zeros((2, 3)), np.ones((2, 3))
    c = np.ones(4)
    assert match([b, a, c], [c, a, b]) == [2, 1, 0]
    assert match([c], [a, b]) is None
    assert match([], [a]) is None
    assert match([a, b], [a]) is None


class TestReport:
    row = OutputRow("y", "N=2", (2, 3), 0.0, 0.0, 1e-5, True)

    def test_nothing_compared_is_not_passed(self) -> None:
        assert not Report("a", "b", "").passed
        assert not Report("a", "b", "", modules=[ModuleRow("m#1", "M", passed=True)]).passed
        empty = OutputRow("y", "N=2", (0, 3), 0.0, 0.0, 0.0, True)
        assert not Report("a", "b", "", [empty]).passed
        assert "NOT PROVEN" in Report("a", "b", "").render()

    def test_one_failing_row_fails_it(self) -> None:
        assert Report("a", "b", "", [self.row]).passed
        assert not Report("a", "b", "", [self.row], [ModuleRow("m#1", "M", passed=False)]).passed

    def test_json_holds_what_is_not_a_number(self) -> None:
        nan = OutputRow("y", "N=2", (2,), math.nan, math.inf, 0.0, False, "why")
        document = json.loads(json.dumps(Report("a", "b", "", [nan]).to_json(), allow_nan=False))
        assert document["passed"] is False
        assert document["outputs"][0]["max_abs"] is None
        assert document["outputs"][0]["max_rel"] == "inf"

    def test_text_names_the_culprit(self) -> None:
        failing = ModuleRow("fc#1", "Linear", 1.0, 1.0, 0.1, 1.0, False, False, "alone: 1 apart")
        skipped = ModuleRow("id#1", "Identity", reason="computes nothing")
        text = Report("a", "b", "", [self.row], [failing, skipped], "fc#1").render()
        assert "first divergence: fc#1" in text
        assert "FAILED: alone: 1 apart" in text
        assert "not compared: computes nothing" in text


@pytest.mark.parametrize("size", [1, 2**14 - 1, 2**14, 3 * 2**14 + 5])
def test_where_two_arrays_lie_is_exact_in_float64_at_any_size(size: int) -> None:
    random = np.random.default_rng(size)
    source = random.standard_normal(size).astype(np.float32)
    target = (source + 1e-6 * random.standard_normal(size)).astype(np.float32)
    found = measure_extent(source.reshape(1, -1), target.reshape(1, -1))
    assert found is not None
    assert found.apart == np.abs(source.astype(np.float64) - target.astype(np.float64)).max()
    assert (found.low, found.high) == (source.min(), source.max())
    assert found.scale == np.abs(source).max()


@pytest.mark.parametrize("number", [np.nan, np.inf])
@pytest.mark.parametrize("at", [0, 2**14 + 3])
def test_arrays_with_other_than_numbers_have_no_extent(number: float, at: int) -> None:
    array = np.ones(2**15, np.float32)
    array[at] = number
    assert measure_extent(array, np.ones_like(array)) is None
    assert measure_extent(np.ones_like(array), array) is None
    assert measure_extent(array, array.copy()) is None
    assert measure_extent(np.ones(3), np.ones(3)) is None
    assert measure_extent(np.ones(0, np.float32), np.ones(0, np.float32)) is None
