"""Weights that every use would transpose are stored turned, in the file and in renames.json; others stay."""

import json

import numpy as np
import onnx
import pytest
import torch
from onnx.external_data_helper import load_external_data_for_model
from torch import nn

import regraft
from regraft.formats import elements


class Tagger(nn.Module):
    """An embedding, a layer that is called twice, and a head that is tied to the embedding."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 8)
        self.mix = nn.Linear(8, 8)
        self.wide = nn.Linear(8, 16, bias=False)
        self.narrow = nn.Linear(16, 8)
        self.head = nn.Linear(8, 20, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids):
        x = self.mix(torch.relu(self.mix(self.embed(ids))))
        return self.head(self.narrow(self.wide(x)))


@pytest.mark.parametrize("external", [False, True])
def test_a_weight_is_turned_unless_something_reads_it_as_it_is(tmp_path, monkeypatch, external):
    monkeypatch.setattr(elements, "BAND", 100)  # some rows at a time
    torch.manual_seed(0)
    net = Tagger().eval()
    graph = regraft.load(net, (np.array([[1, 2, 3], [4, 5, 6]]),))
    regraft.save(regraft.rewrite(graph).graph, tmp_path / "net.onnx", external_data=external)
    model = onnx.load(tmp_path / "net.onnx", load_external_data=False)
    load_external_data_for_model(model, str(tmp_path))
    stored = {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer}
    turned = {"mix.weight", "wide.weight", "narrow.weight"}
    state = net.state_dict()
    for name, array in stored.items():
        values = state[name].numpy()
        np.testing.assert_array_equal(array, values.T if name in turned else values)
    assert sum(node.op_type == "Transpose" for node in model.graph.node) == 1  # the head's
    rows = json.loads((tmp_path / "net.renames.json").read_text())["parameters"]
    assert {row["source"] for row in rows if row["transform"] == "transpose:1,0"} == turned
    assert regraft.verify(graph, tmp_path / "net.onnx").passed
    torch.save(state, tmp_path / "net.pth")
    names = (tmp_path / name for name in ("net.pth", "net.onnx", "net.renames.json"))
    assert regraft.diff(*names).equal
