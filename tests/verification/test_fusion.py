"""A file that ONNX Runtime's fusions repair is wrong elsewhere: operators also run one by one."""

import pytest
import torch

import regraft
from regraft.backends.onnx_model import to_model
from regraft.verification import verify

nn = torch.nn


class Residual(nn.Module):
    """A sum that a layer normalisation follows, which ONNX Runtime puts into one operator."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 8)
        self.norm = nn.LayerNorm(8)

    def forward(self, x):
        return self.norm(x + self.fc(x))


@pytest.mark.parametrize("axis", [-1, -2])
def test_the_axis_of_a_normalisation_behind_a_sum_is_what_the_standard_says(axis):
    torch.manual_seed(0)
    graph = regraft.load(Residual().eval(), [torch.randn(2, 5, 8)])
    model = to_model(graph)
    (node,) = [n for n in model.graph.node if n.op_type == "LayerNormalization"]
    (attribute,) = [a for a in node.attribute if a.name == "axis"]
    attribute.i = axis
    report = verify(graph, model)
    failed = [row.case for row in report.outputs if not row.passed]
    assert failed == ([] if axis == -1 else ["N=2, operators one by one"])
    assert report.passed is (axis == -1)
