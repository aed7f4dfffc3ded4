"""Nets that differ in an epsilon, which shows on small inputs alone."""

from collections.abc import Callable

import mindspore as ms
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import regraft
from regraft.verification import verify
from regraft.verification.jumps.epsilons import has_epsilon

Function = Callable[[Tensor], Tensor]

X = torch.randn(4, 32, generator=torch.Generator().manual_seed(0))

PAIRS: dict[str, tuple[Function, Function, Function]] = {
    "at least": (
        lambda x: F.normalize(x, dim=1, eps=1e-3),
        lambda x: F.normalize(x, dim=1),
        lambda x: x / x.pow(2).sum(1, True).sqrt().clamp(1e-3),
    ),
    "added to a length": (
        lambda x: x / (x.norm(dim=1, keepdim=True) + 1e-4),
        lambda x: x / (x.norm(dim=1, keepdim=True) + 1e-8),
        lambda x: x / (1e-4 + x.square().sum(1, keepdim=True).sqrt()),
    ),
    "added to a mean of squares": (
        lambda x: x * torch.rsqrt(x.pow(2).mean(-1, True) + 1e-6),
        lambda x: x * torch.rsqrt(x.pow(2).mean(-1, True) + 1e-8),
        lambda x: F.rms_norm(x, (32,), eps=1e-6),
    ),
    "of a layer": (
        lambda x: F.layer_norm(x, (32,), eps=1e-5),
        lambda x: F.layer_norm(x, (32,), eps=1e-6),
        lambda x: (x - x.mean(1, True)) / (x.var(1, unbiased=False, keepdim=True) + 1e-5).sqrt(),
    ),
    "of groups": (
        lambda x: F.group_norm(x, 4, eps=1e-5),
        lambda x: F.group_norm(x, 4, eps=1e-3),
        lambda x: F.layer_norm(x.reshape(-1, 4, 8), (8,), eps=1e-5).reshape(-1, 32),
    ),
    "before a logarithm": (
        lambda x: torch.log(x.abs() + 1e-6),
        lambda x: torch.log(x.abs() + 1e-7),
        lambda x: torch.log(1e-6 + torch.relu(x) + torch.relu(-x)),
    ),
    "behind a product": (
        lambda x: F.cosine_similarity(x, x.flip(1), 1, 1e-3),
        lambda x: F.cosine_similarity(x, x.flip(1), 1, 1e-8),
        lambda x: (F.normalize(x, dim=1, eps=1e-3) * F.normalize(x.flip(1), dim=1, eps=1e-3)).sum(1),
    ),
}


class Of(nn.Module):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


@pytest.mark.parametrize("name", list(PAIRS))
def test_an_epsilon_shows_on_small_inputs(name: str, tmp_path) -> None:
    source, wrong, right = (regraft.load(Of(function), (X,)) for function in PAIRS[name])
    report = verify(source, wrong)
    assert not report.passed
    assert any(row.case.endswith("x0.0001") for row in report.outputs if not row.passed)
    report = verify(source, right)
    assert report.passed, report.render()
    for target, to in ((tmp_path / "net", "mindspore"), (tmp_path / "net.onnx", "onnx")):
        regraft.save(regraft.rewrite(source), target, to)
        report = verify(source, target)
        assert report.passed, report.render()
        assert sum(row.case.endswith("x0.0001") for row in report.outputs) == 1


class Normalised(ms.nn.Cell):
    def __init__(self, epsilon: float) -> None:
        super().__init__()
        self.epsilon = epsilon

    def construct(self, x):
        return x / ms.ops.clamp(ms.ops.norm(x, dim=1, keepdim=True), self.epsilon)


def test_an_epsilon_of_a_cell_shows() -> None:
    source = regraft.load(Of(PAIRS["at least"][0]), (X,))
    x = (ms.Tensor(X.numpy()),)
    assert verify(source, regraft.load(Normalised(1e-3), x), own=True).passed
    assert not verify(source, regraft.load(Normalised(1e-12), x), own=True).passed


UNMOVED: dict[str, Function] = {
    "no number": lambda x: x / x.norm(dim=1, keepdim=True),
    "a number that is not small": lambda x: x / (x.abs() + 1.0),
    "a constant before it": lambda x: torch.log(torch.sigmoid(x) + 1e-6),
}


@pytest.mark.parametrize("name", list(UNMOVED))
def test_nets_without_such_a_number_have_no_further_case(name: str) -> None:
    assert not has_epsilon(regraft.load(Of(UNMOVED[name]), (X,)))
    assert not has_epsilon(regraft.load(Of(PAIRS["at least"][0]), (X.half(),)))
