"""What a run of a corpus found, stored small: counts, reasons, and the commit that was measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from regraft.benchmarks.store_results import RESULTS, store

ROWS: dict[str, tuple[list[object], dict[str, dict[str, list[int]]]]] = {
    "mindspore": (
        [
            [
                "zoo:a",
                {"onnx": "ok", "mindspore": "UnsupportedError: E201 no lowering for 1 MindSpore operator"},
            ],
            [
                "zoo:b",
                {"onnx": "ok", "mindspore": "UnsupportedError: E201 no lowering for 1 MindSpore operator"},
            ],
            ["ops:c", {"onnx": "off by 0.1 in /tmp/x1/y/model.py at 0x7f00aa", "mindspore": "ok"}],
        ],
        {"zoo": {"onnx": [2, 2], "mindspore": [0, 2]}, "ops": {"onnx": [0, 1], "mindspore": [1, 1]}},
    ),
    "mxnet": (
        [
            {"id": "zoo/a", "row": "zoo", "target": "onnx", "why": []},
            {"id": "zoo/a", "row": "zoo", "target": "mindspore", "why": ["one", "two"]},
        ],
        {"zoo": {"onnx": [1, 1], "mindspore": [0, 1]}},
    ),
    "conformance": (
        [
            {"id": "node/a", "typed": True, "original": [], "onnx": [], "mindspore": ["wrong"]},
            {"id": "node/b", "typed": False, "original": ["not run"], "onnx": ["wrong"], "mindspore": ["no"]},
        ],
        {"node": {"onnx": [1, 1], "mindspore": [0, 1]}},
    ),
}


def stored(name: str, folder: Path) -> dict[str, object]:
    rows = folder / "rows.jsonl"
    rows.write_text("".join(json.dumps(row) + "\n" for row in ROWS[name][0]), encoding="utf-8")
    return json.loads(store(name, rows, "abc1234", folder / "results").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", ROWS)
def test_counts_by_kind_and_target(name: str, tmp_path: Path) -> None:
    found = stored(name, tmp_path)
    assert found["table"] == ROWS[name][1]
    assert found["commit"] == "abc1234"


def test_failures_of_one_reason_stand_together_and_name_no_machine(tmp_path: Path) -> None:
    most, least = stored("mindspore", tmp_path)["failures"]
    assert most["count"] == 2
    assert most["cases"] == ["zoo:a mindspore", "zoo:b mindspore"]
    assert least["why"] == "off by 0.1 in …model.py at …"


def test_no_rows_are_no_result(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text("")
    with pytest.raises(SystemExit, match="expected rows of a run of `mxnet`"):
        store("mxnet", tmp_path / "rows.jsonl", "abc1234", tmp_path)
    assert not (tmp_path / "mxnet.json").exists()


def test_what_is_stored_is_small_and_says_what_was_measured() -> None:
    for path in RESULTS.glob("*.json"):
        assert path.stat().st_size < 100_000, path
        found = json.loads(path.read_text(encoding="utf-8"))
        assert set(found) == {"commit", "measured", "table", "failures"}, path
