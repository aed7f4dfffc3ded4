"""A bias that a net holds beside a layer and adds behind it is the other net's bias of that layer."""

import mindspore as ms
import numpy as np
import pytest
import torch
from torch import nn as tnn

import regraft

nn, ops = ms.nn, ms.ops


class Convolved(tnn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = tnn.Conv2d(3, 6, 3)
        self.b = tnn.Conv2d(6, 6, 1)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


class Multiplied(tnn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = tnn.Linear(4, 6)

    def forward(self, x):
        return self.fc(x)


class MultipliedApart(tnn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = tnn.Linear(4, 6, bias=False)
        self.bias = tnn.Parameter(torch.ones(6))

    def forward(self, x):
        return self.fc(x) + self.bias


def held(*shape: int) -> ms.Parameter:
    return ms.Parameter(ms.Tensor(np.zeros(shape, np.float32)))


class Port(nn.Cell):
    """Its two biases are vectors and have other names; `form` says how it adds the first."""

    def __init__(self, form: str) -> None:
        super().__init__()
        self.a = nn.Conv2d(3, 6, 3, pad_mode="valid", has_bias=False)
        self.b = nn.Conv2d(6, 6, 1, has_bias=False)
        self.first, self.last, self.form = held(1, 6, 1, 1), held(6, 1, 1), form

    def construct(self, x):
        x = self.a(x)
        if self.form == "behind relu":
            return self.b(ops.relu(x) + self.first) + self.last
        if self.form == "halved":
            return self.b(ops.relu(x + self.first * 0.5)) + self.last
        if self.form == "twice":
            return self.b(ops.relu(x + self.first)) + self.first
        by_operator = self.form == "by bias_add"
        x = ops.bias_add(x, self.first.reshape(6)) if by_operator else x + self.first
        return self.b(ops.relu(x)) + self.last


class Written(nn.Cell):
    """Holds the weight too."""

    def __init__(self) -> None:
        super().__init__()
        self.w, self.c = held(6, 4), held(6)

    def construct(self, x):
        return ops.matmul(x, self.w.T) + self.c


IMAGES, ROWS = (torch.randn(2, 3, 6, 6),), (torch.randn(2, 4),)


@pytest.mark.parametrize("form", ["added", "by bias_add"])
def test_a_bias_beside_its_layer_is_paired(form: str) -> None:
    report = regraft.verify(Convolved(), Port(form), IMAGES)
    assert report.passed, report.render()
    names = {(p.source, p.target) for p in report.nets.pairs}
    assert {("a.bias", "first"), ("b.bias", "last")} <= names
    assert not report.nets.only_source
    assert not report.nets.only_target


@pytest.mark.parametrize("form", ["behind relu", "halved", "twice"])
def test_a_parameter_that_is_added_elsewhere_or_otherwise_is_not_the_bias(form: str) -> None:
    report = regraft.verify(Convolved(), Port(form), IMAGES)
    assert not report.passed
    assert report.nets.only_source == ["b.bias" if form == "twice" else "a.bias"]


@pytest.mark.parametrize(
    ("source", "target"),
    [(Multiplied, MultipliedApart), (MultipliedApart, Multiplied), (Multiplied, Written)],
    ids=["in the target", "in the source", "with its weight"],
)
def test_either_net_may_hold_it(source: type, target: type) -> None:
    report = regraft.verify(source(), target(), ROWS)
    assert report.passed, report.render()
    assert len(report.nets.pairs) == 2
