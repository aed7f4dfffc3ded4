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


def test_a_loop_of_many_turns_ends_where_its_condition_does(tmp_path: Path) -> None:
    case = copy.deepcopy(CASES["while"])
    _node(case)["attrs"]["max_iterations"] = "100000"
    graph = load(case, tmp_path)
    assert [o.op_type for o in graph.operators()].count("Loop") == 1
    rows, number, value = run(graph)
    assert rows.shape == (100000, 1)
    np.testing.assert_allclose(rows[:7], CASES["while"]["outputs"][0], rtol=1e-6)
    assert not rows[7:].any()
    assert (number.item(), value.item()) == (4, 12)


def test_a_loop_stops_at_the_most_turns_that_it_states(tmp_path: Path) -> None:
    case = copy.deepcopy(CASES["while"])
    case["given"] |= {"i": [-100], "k": [1]}
    _node(case)["attrs"]["max_iterations"] = "33"
    graph = load(case, tmp_path)
    assert [o.op_type for o in graph.operators()].count("Loop") == 1
    rows, number, value = run(graph)
    np.testing.assert_array_equal(rows.ravel(), 1.5 * np.arange(-100, -67))
    assert (number.item(), value.item()) == (-67, 1.5)


def test_a_loop_of_many_turns_that_never_begins_keeps_its_variables(tmp_path: Path) -> None:
    case = copy.deepcopy(CASES["newton"])
    case["given"]["r"] = np.sqrt(case["given"]["a"]).tolist()
    errors, root = run(load(case, tmp_path))
    assert not errors.any()
    np.testing.assert_array_equal(root, np.float32(case["given"]["r"]))


@pytest.mark.parametrize(
    ("turns", "message"), [("2000000", "at most 1048576"), ("0", "from 1 to"), ("-1", "from 1 to")]
)
def test_loops_of_no_number_of_turns_are_refused(turns: str, message: str, tmp_path: Path) -> None:
    case = copy.deepcopy(CASES["while"])
    _node(case)["attrs"]["max_iterations"] = turns
    with pytest.raises(UnsupportedError, match=message):
        load(case, tmp_path)


def test_what_a_loop_collects_is_bounded(tmp_path: Path) -> None:
    case = copy.deepcopy(CASES["while"])
    _node(case)["attrs"]["max_iterations"] = "1000000"
    case["given"] = {name: values * 8 for name, values in case["given"].items()} | {"i": [1]}
    with pytest.raises(UnsupportedError, match="expected at most 4194304 elements or parts, got"):
        load(case, tmp_path)


def test_a_variable_of_a_loop_keeps_its_type(tmp_path: Path) -> None:
    case = copy.deepcopy(CASES["newton"])
    case["given"]["a"] = [case["given"]["a"]]  # the variable would gain an axis
    with pytest.raises(UnsupportedError, match="to keep its type"):
        load(case, tmp_path)


@pytest.mark.parametrize("name", ["func_var_locs", "func_input_locs"])
def test_a_loop_with_one_variable_twice_is_refused(name: str, tmp_path: Path) -> None:
    case = copy.deepcopy(CASES["while"])
    _node(case)["attrs"] |= {
        "max_iterations": "100",
        name: "[0, 0]" if name == "func_var_locs" else "[0, 0, 0]",
    }
    with pytest.raises((UnsupportedError, ModelError), match=r"E101|E203"):
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
