"""What the judge by ONNX's own suite may take as a constant, and how its page names what is not right."""

import importlib
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from onnx import parser

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def judge() -> ModuleType:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "benchmarks" / "suites")
        return importlib.import_module("conformance")


@pytest.fixture(scope="module")
def written(judge: ModuleType) -> ModuleType:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "benchmarks" / "suites")
        return importlib.import_module("conformance_page")


def test_settings_are_bound_with_what_they_are_computed_of_and_data_never_is(judge):
    model = parser.parse_model(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        net (float[4, 6] x, int64[1] begin, int64[1] width, float[6] y) => (float[N, M] z) {
          stop = Add (begin, width)
          part = Slice (x, begin, stop)
          z = Add (part, y)
        }
        """
    )
    given = {
        "x": np.zeros((4, 6), np.float32),
        "begin": np.array([1]),
        "width": np.array([2]),
        "y": np.zeros(6, np.float32),
    }
    fixed = judge.with_constants(model, given)
    assert [i.name for i in fixed.graph.input] == ["x", "y"] == list(given)
    assert {t.name for t in fixed.graph.initializer} == {"begin", "width"}
    with pytest.raises(ValueError, match="no setting is an input"):
        judge.with_constants(fixed, given)


def test_what_is_not_right_is_named_with_its_reason(written):
    refused = "UnsupportedError: E601 the backend can neither emit nor expand\n  Slice: 1 use, e.g. `Slice`"
    because = f"{refused}\n    because `starts` would have to be known before a run"
    scan = "UnsupportedError: E203 `Scan`: expected opset 9 - at node `n`"
    none = "neither a form in PyTorch source nor a definition that leads to one"
    for found, what, why in [
        (because, "`Slice`", "`starts` would have to be known before a run"),
        (refused, "`Slice`", none),
        (scan, "`Scan`", "expected opset 9"),
        ("output 0: 3 values apart, up to 2", "**other values**", "values apart"),
        ("TypeError: no kernel\nmore", "an error at run time: TypeError", "no kernel"),
    ]:
        assert written.reason([found], "torch") == (what, why)


def test_onnx2torch_stands_beside_pytorch_source_and_its_failures_are_only_counted(written):
    rows = [
        {"id": "node/test_a", "torch": [], "onnx2torch": ["NotImplementedError: no converter"]},
        {"id": "node/test_b", "torch": ["TypeError: no kernel"], "onnx2torch": []},
    ]
    page = written.page(rows)
    assert "onnx2torch makes of the same cases" in page
    assert "| node tests | 1 of 2 (50.0%) | 1 of 2 (50.0%) |" in page
    assert "no kernel" in page
    assert "no converter" not in page
    alone = written.page([{"id": "node/test_a", "torch": [], "mindspore": ["x"], "fixed": []}])
    assert "onnx2torch" not in alone
    assert "| node tests | 0 of 1 (0.0%) | 1: 1 of 1 (100.0%) | 1 of 1 (100.0%) |" in alone
