"""Coarse kernels of MindSpore and ONNX Runtime are no fault of a port; a wrong factor beside them is one."""

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


FORMS = {
    "sigmoid": torch.sigmoid,
    "gate": lambda x: torch.sigmoid(5 * x) * x,
    "far sigmoid": lambda x: torch.sigmoid(x - 15),
    "silu": F.silu,
    "far silu": lambda x: F.silu(x - 15),
    "glu": F.glu,
    "mish": F.mish,
    "large mish": lambda x: F.mish(x * 100),
    "near expm1": lambda x: torch.expm1(x * 1e-4),
    "near log1p": lambda x: torch.log1p(x * 1e-4),
}


class Formed(tnn.Module):
    def __init__(self, form: str, factor: float = 1.0) -> None:
        super().__init__()
        self.form, self.factor = form, factor

    def forward(self, x):
        return FORMS[self.form](x) * self.factor


@pytest.mark.parametrize("form", list(FORMS))
def test_small_results_of_coarse_kernels_are_equal(form, tmp_path) -> None:
    """ONNX Runtime's Sigmoid is off by a unit of 1, however small it is; MindSpore's mish is so too."""
    inputs = (torch.randn(4, 32, generator=torch.Generator().manual_seed(0)),)
    graph = regraft.load(Formed(form), inputs)
    regraft.save(regraft.rewrite(graph), tmp_path / "net", "mindspore")
    regraft.save(regraft.rewrite(graph), tmp_path / "net.onnx", "onnx")
    for target in (tmp_path / "net", tmp_path / "net.onnx"):
        report = verify(graph, target)
        assert report.passed, (target, [row for row in report.outputs if not row.passed])
    back = verify(regraft.load(tmp_path / "net.onnx"), graph)
    assert back.passed, [row for row in back.outputs if not row.passed]
    for factor in (1 + 1e-3, 1 - 1e-3):
        wrong = regraft.load(Formed(form, factor), inputs)
        near = form.startswith(("far", "near"))  # a thousandth of their results is less than rounding
        assert near or not verify(regraft.load(tmp_path / "net.onnx"), wrong).passed


class Squashed(ms.nn.Cell):
    def construct(self, x):
        return ops.sigmoid(x)


def test_small_results_of_a_cell_in_onnx_runtime_are_equal(tmp_path) -> None:
    x = ms.Tensor(torch.randn(4, 32, generator=torch.Generator().manual_seed(0)).numpy())
    graph = regraft.load(Squashed(), (x,))
    regraft.save(regraft.rewrite(graph), tmp_path / "net.onnx", "onnx")
    report = verify(graph, tmp_path / "net.onnx")
    assert report.passed, [row for row in report.outputs if not row.passed]
