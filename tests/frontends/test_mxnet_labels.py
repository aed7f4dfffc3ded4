"""Labels of loss heads: no inputs in inference, also behind operators on labels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import regraft
from regraft.ir import ModelError

from ..corpora.mxnet.cases import save_params

ROWS: dict[str, list[tuple[str, dict[str, str], list[str]]]] = {
    "reshaped": [("Reshape", {"shape": "(-1,)"}, ["softmax_label"])],
    "moved and reshaped": [
        ("transpose", {"axes": "(1, 0)"}, ["softmax_label"]),
        ("Reshape", {"shape": "(-1,)"}, ["op0"]),
    ],
    "of two": [("elemwise_mul", {}, ["softmax_label", "mask_label"])],
}
"""What makes a label -> its operators, each reading variables and the ones before it."""


def _symbol(folder: Path, steps: list[tuple[str, dict[str, str], list[str]]], *, more: bool = False) -> Path:
    nodes: list[dict[str, Any]] = []
    places: dict[str, int] = {}

    def add(op: str, name: str, inputs: list[str], attributes: dict[str, str] | None = None) -> None:
        for other in inputs:
            if other not in places:
                add("null", other, [])
        places[name] = len(nodes)
        uses = [[places[other], 0, 0] for other in inputs]
        nodes.append({"op": op, "name": name, "attrs": attributes or {}, "inputs": uses})

    add("FullyConnected", "fc", ["data", "fc_weight", "fc_bias"], {"num_hidden": "3"})
    for number, (op, attributes, inputs) in enumerate(steps):
        add(op, f"op{number}", inputs, attributes)
    add("SoftmaxOutput", "softmax", ["fc", f"op{len(steps) - 1}"])
    heads = ["softmax", "op0"] if more else ["softmax"]
    variables = [n for n, node in enumerate(nodes) if node["op"] == "null"]
    path = folder / "net-symbol.json"
    path.write_text(
        json.dumps({"nodes": nodes, "arg_nodes": variables, "heads": [[places[h], 0, 0] for h in heads]})
    )
    draw = np.random.default_rng(0).standard_normal
    arrays = {"arg:fc_weight": draw((3, 4)).astype("f4"), "arg:fc_bias": draw(3).astype("f4")}
    save_params(folder / "net-0000.params", arrays)
    return path


@pytest.mark.parametrize("name", ROWS)
def test_a_label_behind_operators_is_no_input(name, tmp_path):
    path = _symbol(tmp_path, ROWS[name])
    graph = regraft.load(path, {"data": "2x4"})
    assert [node.name for node in graph.input_nodes()] == ["data"]
    assert any("`softmax_label`" in note and "a label" in note for note in graph.origin.notes)
    regraft.save(regraft.rewrite(graph).graph, tmp_path / "net.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "net.onnx", providers=["CPUExecutionProvider"])
    x = np.ones((2, 4), np.float32)
    (found,) = session.run(None, {"data": x})
    assert np.allclose(np.asarray(found).sum(1), 1)
    regraft.save(regraft.rewrite(graph).graph, tmp_path / "back", "mxnet")  # with a label of the head's own
    again = regraft.load(next((tmp_path / "back").glob("*-symbol.json")), {"data": "2x4"})
    assert [node.name for node in again.input_nodes()] == ["data"]


def test_one_that_is_given_is_an_input(tmp_path):
    graph = regraft.load(_symbol(tmp_path, ROWS["reshaped"]), {"data": "2x4", "softmax_label": "2x1"})
    assert [node.name for node in graph.input_nodes()] == ["data", "softmax_label"]


def test_one_that_is_returned_is_an_input(tmp_path):
    path = _symbol(tmp_path, ROWS["reshaped"], more=True)
    with pytest.raises(ModelError, match="the shape of `softmax_label`"):
        regraft.load(path, {"data": "2x4"})
