"""MindSpore's coarse exp, log and softplus are no fault of a port; a wrong factor beside them still is."""

import math

import mindspore as ms
import pytest
import torch
import torch.nn.functional as F
from mindspore import ops
from torch import nn as tnn

import regraft
from regraft.verification import verify


class Written(tnn.Module):
    """Near 0, what exp or softplus gives cancels out but for its rounding."""

    def __init__(self, form: str, mean: bool) -> None:
        super().__init__()
        self.form, self.mean = form, mean

    def forward(self, x, y):
        e = x - y
        if self.form == "softplus":
            found = e + F.softplus(-2 * e) - math.log(2.0)
        else:
            found = torch.log((torch.exp(e) + torch.exp(-e)) / 2)
        return found.mean() if self.mean else found


class Port(ms.nn.Cell):
    """The same, off by a factor."""

    def __init__(self, form: str, factor: float) -> None:
        super().__init__()
        self.form, self.factor = form, factor

    def construct(self, x, y):
        e = x - y
        if self.form == "softplus":
            return (e + ops.softplus(-2 * e) - math.log(2.0)) * self.factor
        return ops.log((ops.exp(e) + ops.exp(-e)) / 2) * self.factor


@pytest.mark.parametrize(("form", "mean", "shape"), [("softplus", True, (8,)), ("exp", False, (4, 3))])
def test_what_is_written_for_mindspore_is_equal(form, mean, shape, tmp_path) -> None:
    graph = regraft.load(Written(form, mean), (torch.randn(shape), torch.randn(shape)))
    regraft.save(regraft.rewrite(graph), tmp_path / "net", "mindspore")
    report = verify(graph, tmp_path / "net")
    assert report.passed, [row for row in report.outputs if not row.passed]


@pytest.mark.parametrize("form", ["softplus", "exp"])
def test_a_wrong_factor_is_found_beside_them(form) -> None:
    random = torch.Generator().manual_seed(0)
    x, y = (torch.randn(4, 3, generator=random) for _ in range(2))
    graph = regraft.load(Written(form, mean=False), (x, y))
    tensors = tuple(ms.Tensor(t.numpy()) for t in (x, y))
    for factor, right in ((1.0, True), (1 + 1e-5, False), (1 - 1e-5, False)):
        report = verify(graph, regraft.load(Port(form, factor), tensors), own=True)
        assert report.passed == right, (factor, [row for row in report.outputs if not row.passed])
