"""Every row of the MXNet frontend, run by ONNX Runtime against what MXNet 1.9.1 was recorded to give."""

from __future__ import annotations

from pathlib import Path

import pytest

from regraft.frontends.mxnet_symbol.operators import TABLE

from ..corpora.mxnet.cases import Case, cases
from ..frontends.test_mxnet_numbers import load, run
from .mxnet_symbol import CASES
from .recording import rows_that_run

RECORD = "record it with tests/tools/record_mxnet.py"


@pytest.mark.parametrize("case", [pytest.param(c, id=i) for i, c in cases("rows").items()])
def test_row_is_mxnets(case: Case, tmp_path: Path) -> None:
    with rows_that_run(TABLE, "renamed", "functions") as ran:
        graph = load(case, tmp_path, dynamic=False)
    assert case.name.partition(" ")[0] in ran
    case.check(run(graph))


def test_every_row_has_a_case() -> None:
    """The other recorded symbols, all of whose nodes are read, are those of `test_mxnet_numbers.py`."""
    recorded = [case for group in ("ops", "rows", "models", "legacy") for case in cases(group).values()]
    named = {node["op"] for case in recorded for node in case.symbol()["nodes"]}
    assert set(TABLE.names()) - named == set(), f"declare a case in tests/rows/mxnet_symbol.py, then {RECORD}"


def test_every_declared_case_is_recorded() -> None:
    assert {case.name for case in cases("rows").values()} == set(CASES), RECORD
