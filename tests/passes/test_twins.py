"""Twins of symbols, as files of MXNet; and branches that came apart, told by structure and prefix."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

import regraft
from regraft.cli import main
from regraft.ir import PassError
from regraft.passes import TieWeights

from ..corpora.mxnet.cases import save_params

SHAPES = {"conv1_weight": (4, 1, 3, 3), "conv1_bias": (4,), "fc_weight": (5, 144), "fc_bias": (5,)}


def symbol(folder, prefixes, *, equal=True, other="fc_weight"):
    """A convolution and a dense layer for each prefix, on an input of its own."""
    nodes, heads, stored = [], [], {}
    for number, prefix in enumerate(prefixes):

        def add(op, name, *inputs, **attributes):
            nodes.append({"op": op, "name": name, "inputs": [[i, 0, 0] for i in inputs], "attrs": attributes})
            return len(nodes) - 1

        named = {n: prefix + (n if n != "fc_weight" else other if number else n) for n in SHAPES}
        data = add("null", f"data{number}")
        weight, bias = (add("null", named[n]) for n in ("conv1_weight", "conv1_bias"))
        conv = add("Convolution", f"{prefix}conv1", data, weight, bias, kernel="(3, 3)", num_filter="4")
        act = add("Activation", f"{prefix}relu1", conv, act_type="relu")
        weight, bias = (add("null", named[n]) for n in ("fc_weight", "fc_bias"))
        heads.append([add("FullyConnected", f"{prefix}fc", act, weight, bias, num_hidden="5"), 0, 0])
        rng = np.random.default_rng(0 if equal else number)
        stored |= {f"arg:{named[n]}": rng.standard_normal(s).astype(np.float32) for n, s in SHAPES.items()}
    path = folder / "net-symbol.json"
    path.write_text(json.dumps({"nodes": nodes, "heads": heads, "attrs": {"mxnet_version": ["int", 10901]}}))
    save_params(folder / "net-0000.params", stored)
    return path


X = np.random.default_rng(3).standard_normal((2, 1, 8, 8)).astype(np.float32)


def test_triplets_written_for_mxnet_share_variables_and_prefix_operators_alone(tmp_path):
    graph = regraft.load(symbol(tmp_path, [""]), {"data0": X})
    wanted = "tie-weights:twin=data0+pos+neg,at=relu1_output,prefix=p_+n_"
    rewritten = regraft.rewrite(graph, [wanted])
    regraft.save(rewritten.graph, tmp_path / "out", to="mxnet")
    nodes = json.loads((tmp_path / "out" / "net-symbol.json").read_text())["nodes"]
    assert [n["name"] for n in nodes if n["op"] == "Convolution"] == ["conv1", "p_conv1", "n_conv1"]
    assert sorted(n["name"] for n in nodes if n["op"] == "null") == sorted(
        ["conv1_bias", "conv1_weight", "data0", "neg", "pos"]
    )
    again = regraft.load(tmp_path / "out" / "net-symbol.json", {"data0": X, "pos": X + 1, "neg": -X})
    assert [name for name, _ in again.outputs] == ["relu1_output", "p_relu1_output", "n_relu1_output"]
    assert len(again.parameters()) == 2


def test_a_net_that_ends_inside_is_compared_with_the_source_until_there(tmp_path):
    path, out = symbol(tmp_path, [""]), tmp_path / "out"
    options = [
        "--input",
        "data0=2x1x8x8",
        "--pass",
        "tie-weights:twin=data0+data1,at=fc",
        "--to",
        "mindspore",
    ]
    result = CliRunner().invoke(main, ["rewrite", str(path), *options, "-o", str(out)])
    assert result.exit_code == 0, result.output
    assert "equal to what was read" in result.output
    source = (out / "model.py").read_text()
    assert source.count("self.conv1(") == 1
    assert source.count("self.branch(") == 2


@pytest.mark.parametrize("equal", [True, False])
def test_a_branch_under_a_prefix_is_found_and_tied_as_the_advice_says(tmp_path, equal):
    path = symbol(tmp_path, ["", "sha-"], equal=equal)
    (found,) = [c for c in regraft.check(path) if c.code == "TW109"]
    assert "`conv1_weight`, `sha-conv1_weight` and 3 more pairs" in found.message
    assert found.severity == ("warning" if equal else "note")
    assert ("4 of 4 pairs have equal values" if equal else "of other values") in found.message
    assert regraft.check(path).clean is not equal
    assert not [c for c in regraft.check(path) if c.code == "TW104"]
    option = found.advice.split('"')[1]
    graph = regraft.load(path, {"data0": X, "data1": X})
    tied = regraft.rewrite(graph, [option]).graph
    assert sorted(p.declared for p in tied.parameters()) == sorted(SHAPES)


def test_branches_that_differ_are_no_copies(tmp_path):
    codes = {c.code for c in regraft.check(symbol(tmp_path, ["", "sha-"], equal=False, other="dense_weight"))}
    assert not codes & {"TW104", "TW109"}


def test_branches_of_two_prefixes_are_two_towers(tmp_path):
    assert "TW109" not in {c.code for c in regraft.check(symbol(tmp_path, ["a_", "b_"], equal=False))}


@pytest.mark.parametrize("group", ["*+*", "*+no-*", "conv1_*+sha-*", "conv1_weight+sha-*"])
def test_a_pattern_that_not_every_name_has(tmp_path, group):
    graph = regraft.load(symbol(tmp_path, ["", "sha-"]), {"data0": X, "data1": X})
    with pytest.raises(PassError, match="E501"):
        TieWeights(tie=(tuple(group.split("+")),)).run(graph)


def test_a_branch_without_values_is_told_by_its_names(tmp_path):
    path = symbol(tmp_path, ["", "sha-"])
    (tmp_path / "net-0000.params").unlink()
    (found,) = [c for c in regraft.check(path).findings if c.code == "TW109"]
    assert (found.severity, "values" in found.message) == ("warning", False)


def test_two_variables_of_one_name_are_told_and_repaired_in_every_target(tmp_path):
    nodes = [{"op": "null", "name": n, "inputs": []} for n in ("a", "w", "b", "w")]
    attributes = {"num_hidden": "4", "no_bias": "True"}
    for name, first in (("left", 0), ("right", 2)):
        inputs = [[first, 0, 0], [first + 1, 0, 0]]
        nodes.append({"op": "FullyConnected", "name": name, "inputs": inputs, "attrs": attributes})
    path = tmp_path / "two-symbol.json"
    path.write_text(json.dumps({"nodes": nodes, "heads": [[4, 0, 0], [5, 0, 0]]}))
    values = np.arange(12, dtype=np.float32).reshape(4, 3)
    save_params(tmp_path / "two-0000.params", {"arg:w": values})
    (found,) = [c for c in regraft.check(path).findings if c.code == "RP101"]
    assert "2 parameters are called `w`" in found.message
    option = found.advice.split("`")[1].removeprefix("--pass ")
    given = {n: np.full((2, 3), i + 1, np.float32) for i, n in enumerate("ab")}
    for passes, count in (([], 2), ([option], 1)):
        graph = regraft.load(path, given)
        rewritten = regraft.rewrite(graph, passes or None)
        _, report = regraft.rewrite_file(graph, rewritten, tmp_path / f"out{count}", "mxnet")
        assert report is not None
        assert report.passed
        again = regraft.load(tmp_path / f"out{count}" / "two-symbol.json", given)
        assert len({p.declared for p in again.parameters()}) == count
        assert all(np.array_equal(p.data.numpy(), values) for p in again.parameters())
    graph = regraft.load(path, given)
    report = regraft.rewrite_file(graph, regraft.rewrite(graph), tmp_path / "two.onnx", "onnx")[1]
    assert report is not None
    assert report.passed


@pytest.mark.parametrize(("option", "label"), [("", "softmax_label_more"), (",prefix=b_", "b_softmax_label")])
def test_each_branch_has_a_label_of_its_own(option, label, tmp_path):
    nodes = [{"op": "null", "name": n, "inputs": []} for n in ("data", "w", "softmax_label")]
    attributes = {"num_hidden": "4", "no_bias": "True"}
    nodes.append(
        {"op": "FullyConnected", "name": "fc", "inputs": [[0, 0, 0], [1, 0, 0]], "attrs": attributes}
    )
    nodes.append({"op": "SoftmaxOutput", "name": "softmax", "inputs": [[3, 0, 0], [2, 0, 0]]})
    path = tmp_path / "x-symbol.json"
    path.write_text(json.dumps({"nodes": nodes, "heads": [[4, 0, 0]]}))
    save_params(tmp_path / "x-0000.params", {"arg:w": np.ones((4, 3), np.float32)})
    graph = regraft.load(path, {"data": np.ones((2, 3), np.float32)})
    rewritten = regraft.rewrite(graph, [f"tie-weights:twin=data+more{option}"])
    found, *_ = regraft.save(rewritten.graph, tmp_path / "out", to="mxnet")
    written = json.loads(found.read_text())["nodes"]
    heads = [n["inputs"][1][0] for n in written if n["op"] == "SoftmaxOutput"]
    assert [written[at]["name"] for at in heads] == ["softmax_label", label]
