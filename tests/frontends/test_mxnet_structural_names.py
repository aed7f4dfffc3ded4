"""Files of Gluon's `save_parameters` with a symbol: what MXNet computed with them, and what does not tell."""

import json

import numpy as np
import pytest

from regraft import load, load_tree
from regraft.formats.params_file import read_params
from regraft.ir import ModelError

from ..corpora.mxnet.cases import ROOT, save_params
from ..passes.oracle import evaluate

FILES = ROOT / "files"
SAVED = FILES / "structural.save_parameters"


def test_structural_names_are_those_of_the_export():
    with np.load(FILES / "structural.npz") as file:
        x, expected = file["x"], file["y"]
    graph = load(FILES / "structural-symbol.json", {"data": x}, params=SAVED)
    np.testing.assert_allclose(evaluate(graph, x)[0], expected, rtol=1e-4, atol=1e-5)
    exported = load(FILES / "structural-symbol.json", {"data": x})
    for one, other in zip(graph.parameters(), exported.parameters(), strict=True):
        assert one.declared == other.declared
        np.testing.assert_array_equal(one.data.numpy(), other.data.numpy())
    assert any("structural names" in note for note in graph.origin.notes)
    assert len(load_tree(FILES / "structural-symbol.json", params=SAVED).parameters()) == len(
        graph.parameters()
    )


def towers(folder, names, stored):
    """Two dense layers with these names, one behind the other or side by side on one input."""
    side_by_side = names[0] < names[1]
    nodes = [{"op": "null", "name": "data", "inputs": []}]
    for number, name in enumerate(names):
        nodes.append({"op": "null", "name": f"{name}_weight", "inputs": []})
        source = 0 if side_by_side or not number else 2
        inputs = [[source, 0, 0], [len(nodes) - 1, 0, 0]]
        attributes = {"num_hidden": "3", "no_bias": "True"}
        nodes.append({"op": "FullyConnected", "name": name, "inputs": inputs, "attrs": attributes})
    path = folder / "net-symbol.json"
    path.write_text(json.dumps({"nodes": nodes, "heads": [[2, 0, 0], [4, 0, 0]]}))
    save_params(folder / "net-0000.params", stored)
    return path


W = {n: np.full((3, 3), n, np.float32) for n in (1, 2)}
X = {"data": np.ones((2, 3), np.float32)}


def test_layers_one_behind_the_other_are_told_apart_under_any_names(tmp_path):
    graph = load(towers(tmp_path, ["second", "first"], {"a.weight": W[1], "b.weight": W[2]}), X)
    found = {p.declared: p.data.numpy().flat[0] for p in graph.parameters()}
    assert found == {"second_weight": 1, "first_weight": 2}


def test_numbers_say_which_was_made_first(tmp_path):
    graph = load(towers(tmp_path, ["dense0", "dense1"], {"a.weight": W[1], "b.weight": W[2]}), X)
    assert [p.data.numpy().flat[0] for p in graph.parameters()] == [1, 2]


@pytest.mark.parametrize(
    ("names", "stored", "message"),
    [
        (["left", "right"], {"a.weight": W[1], "b.weight": W[2]}, "apart, which run side by side"),
        (["fc0", "fc1"], {"a.weight": W[1]}, "got 1 layers for 2"),
        (["fc0", "fc1"], {"a.weight": W[1], "b.gamma": W[2]}, "got none of its shapes"),
        (["fc0", "fc1"], {"a.weight": W[1], "b.weight": W[2][:2]}, "got none of its shapes"),
        (["fc0", "fc1"], {"a.gamma": W[1], "b.gamma": W[2]}, "got 2 layers for others"),
    ],
)
def test_what_does_not_tell_is_refused(names, stored, message, tmp_path):
    with pytest.raises(ModelError, match="E101") as caught:
        load(towers(tmp_path, names, stored), X)
    assert message in str(caught.value)
    assert "net.export" in str(caught.value)


def test_a_shape_that_only_inference_tells_is_checked_too(tmp_path):
    values = {"a.weight": W[1], "b.weight": np.ones((3, 7), np.float32)}
    with pytest.raises(ModelError, match=r"dense1_weight.* of shape \[3, 3\].*got \[3, 7\]"):
        load(towers(tmp_path, ["dense0", "dense1"], values), X)


def test_the_file_is_of_mxnet(tmp_path):
    assert {a.name for a in read_params(SAVED)} >= {"0.body.0.weight", "0.shortcut.1.running_var", "2.bias"}
