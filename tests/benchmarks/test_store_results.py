"""What a run of a corpus found, stored small: counts, reasons, and the commit that was measured."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import ModuleType

import pytest

SUITES = Path(__file__).resolve().parents[2] / "benchmarks" / "suites"
UNSUPPORTED = "UnsupportedError: E201 no lowering for 1 MindSpore operator"


def row(name: str, group: str, step: str, verdict: str, *found: str) -> dict[str, object]:
    told = {"detail": "; ".join(found), "data": {"found": list(found)} if found else {}}
    return {"name": name, "group": group, "step": step, "verdict": verdict, **told}


ROWS = [
    row("zoo:a", "zoo", "onnx", "equal"),
    row("zoo:a", "zoo", "mindspore", "refused", UNSUPPORTED),
    row("zoo:b", "zoo", "onnx", "equal"),
    row("zoo:b", "zoo", "mindspore", "refused", UNSUPPORTED),
    row("zoo:c", "zoo", "onnx", "not judged"),
    row("ops:c", "ops", "onnx", "different", "off by 0.1 in /tmp/x1/y/model.py at 0x7f00aa", "and more"),
    row("ops:c", "ops", "mindspore", "over time"),
]


@pytest.fixture(scope="module")
def results() -> ModuleType:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(SUITES)
        return importlib.import_module("store_results")


def write_rows(folder: Path) -> Path:
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
    return path


def test_what_is_right_wrong_and_not_judged_is_counted_by_kind_and_target(
    results: ModuleType, tmp_path: Path
) -> None:
    found = json.loads(
        results.store("mindspore", write_rows(tmp_path), "abc1234", tmp_path / "results").read_text()
    )
    assert found["table"] == {
        "zoo": {"onnx": [2, 2], "mindspore": [0, 2]},
        "ops": {"onnx": [0, 1], "mindspore": [0, 1]},
    }
    assert {t: run["commit"] for t, run in found["runs"].items()} == dict.fromkeys(
        ("onnx", "mindspore"), "abc1234"
    )
    most, *others = found["failures"]
    assert most == {"why": UNSUPPORTED, "target": "mindspore", "count": 2, "cases": ["zoo:a", "zoo:b"]}
    assert {each["why"] for each in others} == {"off by 0.1 in …model.py at …; and more", "over time"}


def test_a_run_of_one_target_leaves_the_other_targets_as_they_were(
    results: ModuleType, tmp_path: Path
) -> None:
    results.store("mindspore", write_rows(tmp_path), "abc1234", tmp_path)
    rows = [
        row("zoo:a", "zoo", "mindspore", "equal"),
        row("zoo:a", "zoo", "torch", "different", "off"),
        row("zoo:a", "zoo", "onnx2torch", "fault", "no converter"),
    ]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(each) + "\n" for each in rows))
    found = json.loads(results.store("mindspore", tmp_path / "rows.jsonl", "def5678", tmp_path).read_text())
    assert found["table"] == {
        "zoo": {"onnx": [2, 2], "mindspore": [1, 1], "torch": [0, 1], "onnx2torch": [0, 1]},
        "ops": {"onnx": [0, 1]},
    }
    assert {t: run["commit"] for t, run in found["runs"].items()} == {
        "onnx": "abc1234",
        "mindspore": "def5678",
        "torch": "def5678",
        "onnx2torch": "def5678",
    }
    assert [(f["target"], f["why"]) for f in found["failures"]] == [
        ("onnx", "off by 0.1 in …model.py at …; and more"),
        ("torch", "off"),
    ], "failures of other converters are only counted"


def test_no_rows_are_no_result(results: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text("")
    with pytest.raises(SystemExit, match="expected rows of a run of `mxnet`"):
        results.store("mxnet", tmp_path / "rows.jsonl", "abc1234", tmp_path)
    assert not (tmp_path / "mxnet.json").exists()


def test_what_is_stored_is_small_and_says_what_was_measured(results: ModuleType) -> None:
    for path in results.RESULTS.glob("*.json"):
        assert path.stat().st_size < 100_000, path
        found = json.loads(path.read_text(encoding="utf-8"))
        if path.name == "certified.json":
            assert all(row["commit"] for row in found["corpora"]["rows"])
            assert all(found[part]["commit"] and found[part]["rows"] for part in ("tools", "faults"))
            continue
        if path.name in ("certificates.json", "mint.json"):
            assert found["commit"]
            if path.name == "mint.json":
                continue
            assert all(row["forward"] > 0 for row in found["rows"])
            continue
        if path.name == "versions.json":
            assert all(row["commit"] and row["suites"] for row in found.values())
            continue
        assert set(found) == {"runs", "table", "failures"}, path
        assert {t for cells in found["table"].values() for t in cells} == set(found["runs"]), path
