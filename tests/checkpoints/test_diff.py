"""Differences between checkpoints, against NumPy on small arrays."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from regraft import diff
from regraft.checkpoints import write_checkpoint
from regraft.cli import main
from regraft.formats.renames import Rename, write_renames
from regraft.ir import ModelError, TensorData, UsageError

A = {
    "w": np.arange(12, dtype=np.float32).reshape(3, 4),
    "b": np.array([1.0, -2.0, 4.0], np.float32),
    "gone": np.array([[0.5, 0.25]], np.float32),
    "steps": np.array(3),
}


def write(path, arrays):
    write_checkpoint(path, {n: TensorData.of(np.asarray(a)) for n, a in arrays.items()}, force=True)
    return path


@pytest.fixture
def both(tmp_path):
    def make(arrays, first=None):
        return diff(write(tmp_path / "a.pth", first or A), write(tmp_path / "b.ckpt", arrays))

    return make


def test_equal_in_another_format_and_order(both):
    report = both(dict(reversed(A.items())))
    assert report.equal
    assert [r.name for r in report.rows] == list(A)
    assert (report.only_first, report.only_second, report.elsewhere) == ([], [], [])


def test_numbers(both):
    changed = A["b"] + np.array([0, 1, -0.5], np.float32)
    report = both({**A, "b": changed})
    (row,) = [r for r in report.rows if not r.equal]
    assert (row.name, row.shapes, row.dtypes) == ("b", ((3,), (3,)), ("float32", "float32"))
    assert row.max_abs == 1.0
    assert row.max_relative == 0.5
    assert row.means == pytest.approx((A["b"].mean(), changed.mean()))
    assert row.stds == pytest.approx((A["b"].std(), changed.std()))


def test_statistics_of_more_than_one_chunk(tmp_path):
    array = np.random.default_rng(0).normal(100, 3, 3_000_001).astype(np.float32)
    other = array.copy()
    other[-1] += 8
    report = diff(write(tmp_path / "a.ckpt", {"w": array}), write(tmp_path / "b.ckpt", {"w": other}))
    assert report.rows[0].means == pytest.approx((array.mean(dtype=float), other.mean(dtype=float)))
    assert report.rows[0].stds == pytest.approx((array.std(dtype=float), other.std(dtype=float)))
    assert report.rows[0].max_abs == pytest.approx(8, rel=1e-5)


def test_shapes_and_types(both):
    report = both({**A, "w": A["w"].reshape(4, 3), "b": A["b"].astype(np.float64)})
    assert {r.name: (r.equal, r.max_abs) for r in report.rows if not r.equal} == {
        "w": (False, None),
        "b": (False, 0.0),
    }


def test_other_names(both):
    report = both({**{n: a for n, a in A.items() if n != "gone"}, "came": A["gone"], "zero": np.zeros(2)})
    assert (report.only_first, report.only_second) == (["gone"], ["came", "zero"])
    assert report.elsewhere == [("gone", "came")]


def test_names_that_changed_places(both):
    first = {"a": np.array([1.0, 2.0]), "b": np.array([3.0, 4.0])}
    report = both({"a": first["b"], "b": first["a"]}, first)
    assert not report.equal
    assert report.elsewhere == [("a", "b"), ("b", "a")]


def test_nan_and_infinity(both):
    first = {"x": np.array([np.nan, np.inf, -np.inf, 1.0], np.float32)}
    assert both(first, first).equal
    for at, value in ((0, 0.0), (1, -np.inf), (3, np.nan), (3, np.inf)):
        other = first["x"].copy()
        other[at] = value
        report = both({"x": other}, first)
        assert not report.equal
        assert report.rows[0].max_abs == np.inf
        json.dumps(report.to_json(), allow_nan=False)


def test_integers_that_float64_cannot_tell_apart(both):
    first = {"n": np.array([2**60], np.int64)}
    assert both(first, first).equal
    assert not both({"n": np.array([2**60 + 1], np.int64)}, first).equal


def test_empty_tensors(both):
    first = {"none": np.zeros((0, 3), np.float32)}
    assert both({"none": np.zeros((0, 3), np.float32)}, first).equal
    assert not both({"none": np.zeros((0, 2), np.float32)}, first).equal


def test_by_a_map_in_either_order(tmp_path):
    rows = [
        Rename("w", "w", "v", transform="transpose:1,0", shape=[3, 4], target_shape=[4, 3]),
        Rename("b", "b", "beta", shape=[3], target_shape=[3]),
        Rename("gone", "gone", "", by="drop-unused-modules", shape=[1, 2]),
        Rename("steps", "steps", "steps", dtype="int64"),
    ]
    write_renames(tmp_path / "map.json", rows, source="torch", target="mindspore")
    a = write(tmp_path / "a.pth", A)
    b = write(tmp_path / "b.ckpt", {"v": A["w"].T, "beta": A["b"], "steps": A["steps"]})
    for first, second in ((a, b), (b, a)):
        report = diff(first, second, tmp_path / "map.json")
        assert report.equal
        assert len(report.rows) == 3
        assert any("gone" in note for note in report.notes)
    c = write(tmp_path / "c.ckpt", {"v": A["w"].T + 1, "beta": A["b"], "steps": A["steps"], "new": A["b"]})
    report = diff(a, c, tmp_path / "map.json")
    assert [(r.name, r.other, r.max_abs) for r in report.rows if not r.equal] == [("w", "v", 1.0)]
    assert report.only_second == ["new"]
    assert not diff(a, b).equal


def test_errors(tmp_path):
    a = write(tmp_path / "a.pth", A)
    with pytest.raises(UsageError, match="E001"):
        diff(a, tmp_path / "b.txt")
    with pytest.raises(ModelError, match="E101"):
        diff(a, tmp_path / "b.ckpt")
    (tmp_path / "map.json").write_text("{}")
    with pytest.raises(ModelError, match="E101"):
        diff(a, a, tmp_path / "map.json")


def test_command_line(tmp_path):
    a = write(tmp_path / "a.pth", A)
    b = write(tmp_path / "b.safetensors", {"w": A["w"] * 2, "b": A["b"], "came": A["gone"]})
    result = CliRunner().invoke(main, ["diff", str(a), str(b)])
    assert result.exit_code == 1
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert "w [3, 4] float32 11 0.5 5.5 -> 11 3.45 -> 6.9" in lines
    assert "only in the first: steps" in lines
    assert "only in the second: came" in lines
    assert "equal values under another name: gone -> came" in lines
    assert lines[-1] == "2 tensors compared, 1 differ, 3 on one side only"
    same = CliRunner().invoke(main, ["diff", str(a), str(a)])
    assert (same.exit_code, same.stdout) == (0, "equal: 4 tensors compared\n")
    document = json.loads(CliRunner().invoke(main, ["diff", str(a), str(b), "--json"]).stdout)
    assert document["equal"] is False
    assert document["tensors"][0]["max_abs"] == 11.0
