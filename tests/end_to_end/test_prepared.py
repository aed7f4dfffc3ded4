"""A model that is prepared for inference: fewer operators, the same outputs, whole modules still compared."""

import numpy as np
import onnx
import pytest
import torch
from torch import nn

import regraft
from regraft import rewrite_file
from regraft.passes import default_pipeline

pytestmark = pytest.mark.xdist_group("mindspore")


class Stage(nn.Module):
    """A convolution, its normalisation, attention that drops."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, bias=False)
        self.bn = nn.BatchNorm2d(8)
        self.attend = nn.MultiheadAttention(8, 2, 0.1, batch_first=True)

    def forward(self, x):
        y = self.bn(self.conv(x)).flatten(2).transpose(1, 2)
        return self.attend(y, y, y, need_weights=False)[0]


def net():
    torch.manual_seed(0)
    model = nn.Sequential(Stage(), nn.Linear(8, 4)).eval()
    nn.init.uniform_(model[0].bn.running_mean)
    nn.init.uniform_(model[0].bn.running_var, 1, 2)
    return model


@pytest.mark.parametrize("target", ["onnx", "mindspore"])
def test_modules_are_compared_except_those_that_others_were_folded_into(tmp_path, target):
    graph = regraft.load(net(), (np.ones((2, 3, 6, 6), np.float32),))
    prepared = regraft.rewrite(graph, [*default_pipeline(), "prepare-for-inference"])
    out = tmp_path / ("net.onnx" if target == "onnx" else "net")
    rewrite_file(graph, prepared, out, target)
    rows = {row.call: row.passed for row in regraft.verify(graph, out).modules}
    assert rows["0.conv#1"] is None
    assert rows["0.bn#1"] is (True if target == "onnx" else None)
    assert rows["0#1"] is True
    assert rows["1#1"] is True
    if target == "onnx":
        kinds = [node.op_type for node in onnx.load(out).graph.node]
        assert not {"BatchNormalization", "Dropout"} & set(kinds)


def test_a_folded_layer_is_not_run_alone_however_small_its_values(tmp_path):
    """What entered the normalisation has the shape of what enters the depthwise layer that took it in."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(4, 4, 3, padding=1, groups=4, bias=False), nn.BatchNorm2d(4)).eval()
    graph = regraft.load(model, (np.full((2, 4, 6, 6), 1e-12, np.float32),))
    regraft.save(regraft.rewrite(graph).graph, tmp_path / "net.onnx")
    report = regraft.verify(graph, tmp_path / "net.onnx")
    assert report.passed, report.render()
