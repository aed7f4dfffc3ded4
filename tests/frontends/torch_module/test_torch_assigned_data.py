"""Assignments to `.data` give a tensor the values of another, as torch gives them, or are refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import regraft
from regraft.ir import ModelError

X = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)


def _anew(x):
    y = x * 2
    y.data = torch.relu(y.data)
    return y + 1


def _of_another(x):
    y, z = x * 2, torch.sin(x)
    y.data = z
    y.mul_(2)  # which `z` sees: they share memory
    return y, z


def _beside_a_view(x):
    y = x * 2
    before = y[:, :2]  # keeps the memory of before
    y.data = torch.relu(y)
    return y[:, 2:] + before


def _in_place(x):
    x = x * 1
    x.data += 1
    x.data *= x.data
    return x


def _of_other_sizes(x):
    y = x * 2
    y.data = y.data[:, :3]
    return y, y.sum(1)


def _at_infinity(x):
    y = (x * 2).masked_fill(x > 0, -torch.inf)
    y.data = y.data.exp()
    return y


def _by_name(x):
    y = x * 2
    setattr(y, "data", y.data - 1)  # noqa: B010 - this spelling is what is under test
    return y


def _by_a_function_inside(x):
    def limit(tensor, bound):
        tensor.data = tensor.data.clamp(-bound, bound)

    y, z = x * 2, x * 3
    limit(y, 0.5)
    limit(z, 1.5)
    return y, z


@pytest.mark.parametrize(
    "function",
    [
        _anew,
        _of_another,
        _beside_a_view,
        _in_place,
        _of_other_sizes,
        _at_infinity,
        _by_name,
        _by_a_function_inside,
    ],
)
def test_a_tensor_has_the_values_that_are_assigned_to_its_data(check, function):
    graph = check(function, X)
    assert sum("no gradient passes `.data`" in note for note in graph.origin.notes) >= 1


class _Rounds(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        y = self.fc(x)
        y.data = torch.round(y.data * 4) / 4
        return y


class _Centres(_Rounds):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("same", self.mean)

    def forward(self, x):
        self.mean.data = x.mean(0)
        return self.fc(x - self.mean) * self.same


class _Keeps(_Rounds):
    def __init__(self):
        super().__init__()
        self.seen = torch.zeros(4)

    def forward(self, x):
        self.seen.data = x.mean(0)
        return self.fc(x) + self.seen


def test_equal_modules_that_assign_to_data(check):
    check(nn.Sequential(_Rounds(), _Centres(), _Rounds(), _Centres()), X)


def test_a_buffer_that_inputs_decide_is_computed_and_not_stored(check):
    net = _Centres()
    graph = check(net, X)
    assert not any("has its values after a run" in note for note in graph.origin.notes)


class _HoldsTwice(_Rounds):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.ones(4))
        self.plain, self.listed = self.mean, [self.mean]

    def forward(self, x):
        self.mean.data = x.mean(0)
        self.listed[0].data = self.plain + 1
        return self.fc(x) * self.plain[:2].sum() + self.mean, self.listed[0]


def test_an_attribute_that_holds_a_buffer_too_has_its_values(check):
    check(_HoldsTwice(), X)


def test_a_tensor_that_no_module_registers_is_refused_at_its_line():
    with pytest.raises(ModelError, match=r"`\.data` of an unregistered tensor.*test_torch_assigned_data"):
        regraft.load(_Keeps(), (torch.from_numpy(X),))


class _ClearsFirst(_Centres):
    def forward(self, x):
        self.mean.data = torch.zeros(4)
        y = x + self.mean
        self.mean.data = y.mean(0)
        return y + self.mean


def test_values_without_inputs_before_those_of_inputs_are_refused_at_their_line():
    with pytest.raises(ModelError, match=r"values without the inputs.*test_torch_assigned_data"):
        regraft.load(_ClearsFirst(), (torch.from_numpy(X),))
