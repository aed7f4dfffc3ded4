"""Every row of the MXNet frontend, run by ONNX Runtime against what MXNet 1.9.1 was recorded to give."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import regraft
from regraft.frontends.mxnet_symbol import read
from regraft.frontends.mxnet_symbol.names import canonical
from regraft.frontends.mxnet_symbol.operators import TABLE
from regraft.frontends.mxnet_symbol.refusals import refusals_page
from regraft.frontends.options import LoadOptions
from regraft.verification.runners.emitted_net import emitted_net

from ..corpora.mxnet.cases import ROOT as corpus_root
from ..corpora.mxnet.cases import Case, cases
from ..frontends.test_mxnet_numbers import load, run
from .mxnet_symbol import BOXES, CASES, NUMBERS, NUMPY, OTHERS, RANDOM, REGIONS
from .recording import rows_that_run

PAGE = Path(__file__).parents[2] / "docs" / "en" / "reference" / "mxnet-refusals.md"
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
    assert set(TABLE.names()) - named - set(RANDOM) == set(), (
        f"declare a case in tests/rows/mxnet_symbol.py, then {RECORD}"
    )


def test_the_page_of_refused_operators_is_up_to_date(update_goldens: bool) -> None:
    names = (corpus_root / "operators.txt").read_text(encoding="utf-8").split()
    refused = [
        n for n in names if canonical(n) not in TABLE and n not in ("_foreach", "_while_loop", "_cond")
    ]
    page = refusals_page(refused)
    if update_goldens:
        PAGE.write_text(page, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == page, "make golden"
    assert "has no lowering yet" not in page, "say in frontends/mxnet_symbol/refusals.py why, and what to do"


def test_every_declared_case_is_recorded() -> None:
    assert {case.name for case in cases("rows").values()} == set(CASES), RECORD


@pytest.mark.parametrize("name", [*BOXES, *REGIONS, *OTHERS, *NUMBERS, *NUMPY])
def test_row_in_mindspore(name: str, tmp_path: Path) -> None:
    case = cases("rows")[f"row/{name}"]
    graph = regraft.rewrite(load(case, tmp_path, dynamic=False)).graph
    regraft.save(graph, tmp_path / "out", to="mindspore")
    case.check(in_mindspore(graph, tmp_path / "out"))


def in_mindspore(graph: regraft.Graph, folder: Path) -> list[np.ndarray]:
    """What an emitted net returns for the example inputs."""
    net, _, _ = emitted_net(folder)
    from mindspore import Tensor

    found = net(*map(Tensor, graph.origin.inputs.values()))
    return [t.asnumpy() for t in (found if isinstance(found, (list, tuple)) else [found])]


def _random_symbol(operator: str, folder: Path) -> tuple[Path, dict[str, np.ndarray]]:
    attributes, inputs = RANDOM[operator]
    given = {f"x{number}": array for number, array in enumerate(inputs)}
    nodes: list[dict[str, object]] = [{"op": "null", "name": name, "inputs": []} for name in given]
    uses = [[number, 0, 0] for number in range(len(given))]
    nodes.append({"op": operator, "name": "row", "attrs": attributes, "inputs": uses})
    path = folder / "random-symbol.json"
    path.write_text(
        json.dumps({"nodes": nodes, "arg_nodes": list(range(len(given))), "heads": [[len(given), 0, 0]]})
    )
    return path, given


@pytest.mark.parametrize("target", ["onnx", "mindspore"])
@pytest.mark.parametrize("operator", RANDOM)
def test_random_numbers_follow_the_law_of_the_source(operator: str, target: str, tmp_path: Path) -> None:
    path, given = _random_symbol(operator, tmp_path)
    with rows_that_run(TABLE, "renamed", "functions") as ran:
        graph = read(path, list(given.items()), LoadOptions())
    assert operator in ran
    if target == "onnx":
        (found,) = run(graph)
    else:
        regraft.save(graph, tmp_path / "out", to="mindspore")
        (found,) = in_mindspore(graph, tmp_path / "out")
    if "multinomial" in operator:
        np.testing.assert_allclose(found.mean(1), [0.8, 0.5], atol=0.06)
        assert set(np.unique(found)) == {0, 1}
    elif "exponential" in operator:
        np.testing.assert_allclose([found.mean(), found.std()], [0.5, 0.5], atol=0.06)
        assert found.min() >= 0
    elif "randint" in operator:
        assert set(np.unique(found)) == {-2, -1, 0, 1, 2}
        np.testing.assert_allclose([found.mean(), found.std()], [0, 2**0.5], atol=0.1)
    elif "shuffle" in operator:
        np.testing.assert_array_equal(np.sort(found), np.arange(4000))
        assert abs(np.corrcoef(found, np.arange(4000))[0, 1]) < 0.1
    elif "uniform" in operator:
        np.testing.assert_allclose([found.mean(), found.std()], [1, 4 / 12**0.5], atol=0.1)
        assert found.min() >= -1
        assert found.max() <= 3
    else:
        np.testing.assert_allclose([found.mean(), found.std()], [2, 0.5], atol=0.05)
    assert found.size == 4000
