"""Loops and conditions of symbols, against what MXNet 1.9.1 was recorded to give; damaged ones."""

import copy
import json
from pathlib import Path

import numpy as np
import pytest

from regraft.frontends.mxnet_symbol import read
from regraft.frontends.options import LoadOptions
from regraft.ir import ModelError, UnsupportedError, validate

from ..corpora.mxnet.cases import ROOT
from .test_mxnet_numbers import run

CASES = json.loads((ROOT / "control_flow.json").read_text(encoding="utf-8"))


def load(case: dict, folder: Path):
    path = folder / "flow-symbol.json"
    path.write_text(json.dumps(case["symbol"]), encoding="utf-8")
    given = [(name, np.array(values, np.float32)) for name, values in case["given"].items()]
    graph = read(path, given, LoadOptions())
    validate(graph)
    return graph


@pytest.mark.parametrize("name", CASES)
def test_control_flow_is_mxnets(name: str, tmp_path: Path) -> None:
    for got, want in zip(run(load(CASES[name], tmp_path)), CASES[name]["outputs"], strict=True):
        assert got.shape == np.shape(want)
        np.testing.assert_allclose(got, want, rtol=1e-6)


def test_a_loop_of_no_turn_keeps_its_variables(tmp_path: Path) -> None:
    case = {**CASES["while"], "given": {**CASES["while"]["given"], "i": [9]}}
    rows, number, value = run(load(case, tmp_path))
    assert not rows.any()
    assert (number.item(), value.item()) == (9, 1.5)


def _node(case: dict) -> dict:
    return next(n for n in case["symbol"]["nodes"] if "subgraphs" in n)


def test_a_loop_of_too_many_turns_is_refused(tmp_path: Path) -> None:
    case = copy.deepcopy(CASES["while"])
    _node(case)["attrs"]["max_iterations"] = "1000000"
    with pytest.raises(UnsupportedError, match="expected from 1 to 1024 turns, got 1000000"):
        load(case, tmp_path)


@pytest.mark.slow
def test_loops_within_loops_are_bounded_together(tmp_path: Path) -> None:
    case = copy.deepcopy(CASES["nested"])
    case["given"] = {"x": np.zeros((512, 512)).tolist(), "s": [1]}
    with pytest.raises(UnsupportedError, match="expected at most 32768 elements or parts"):
        load(case, tmp_path)


@pytest.mark.parametrize(
    "damage",
    [
        lambda node: node["subgraphs"].pop(),
        lambda node: node.update(subgraphs="x"),
        lambda node: node["attrs"].update(in_data_locs="[7]"),
        lambda node: node["subgraphs"][0].update(heads=[[99, 0, 0]]),
    ],
)
def test_damaged_control_flow_is_the_files_fault(damage, tmp_path: Path) -> None:
    case = copy.deepcopy(CASES["foreach"])
    damage(_node(case))
    with pytest.raises(ModelError, match="E101"):
        load(case, tmp_path)


def test_operators_of_inner_symbols_without_a_lowering_are_named(tmp_path: Path) -> None:
    case = copy.deepcopy(CASES["foreach"])
    _node(case)["subgraphs"][0]["nodes"][2]["op"] = "_unheard_of"
    with pytest.raises(UnsupportedError, match="_unheard_of"):
        load(case, tmp_path)
