"""In-place operators and views become single assignments, or are refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def test_a_written_value_is_seen_under_every_name(check):
    def function(x):
        y = x * 2
        z = y
        y.add_(1)
        y *= 3
        return z, y.relu_(), z + 1

    check(function, floats(2, 4))


def test_a_view_taken_before_a_write_sees_it(check):
    def function(x):
        y = x * 2
        flat, column, swapped = y.view(-1), y[:, 1], y.t()
        y.sub_(1)
        return flat, column, swapped, flat.view(-1, 2)

    check(function, floats(2, 4))


@pytest.mark.parametrize(
    "write",
    [
        lambda y: y[:, 0].add_(1),
        lambda y: y[:, 1:3].mul_(2),
        lambda y: y.view(-1).mul_(2),
        lambda y: y.t().mul_(2),
        lambda y: y.unsqueeze(1).add_(3),
        lambda y: y[:, 1:].select(1, 0).fill_(5.0),
        lambda y: y[:, -1].copy_(y[:, 0]),
        lambda y: y.permute(1, 0)[0].zero_(),
        lambda y: y[:, ::2].mul_(2),
        lambda y: y[:, 1::2].select(1, 0).zero_(),
        lambda y: y[0].zero_(),
        lambda y: y[-1:].add_(1),
    ],
)
def test_a_write_into_a_view_is_seen_by_its_base(check, write):
    def function(x):
        y = x * 2
        before = y + 0
        row = y[:, 2]
        write(y)
        return y, before, row, y.sum(1)

    check(function, floats(2, 4))


def test_assignment_to_a_slice(check):
    def function(x):
        y = torch.zeros_like(x)
        y[:, 1:3] = x[:, :2]
        y[:, 0] = 7
        return y

    check(function, floats(2, 4))


def test_writes_by_indices_and_masks(check):
    at = torch.tensor([1, 3])
    places = np.array([[0, 5, 5, 1, 2], [5, 0, 1, 5, 5]])

    def columns(x):
        y = x.clone()
        y[:, at] = 1.0
        y[..., at] = x[..., :2]
        return y

    def masked(x, i):
        y = x.clone()
        y[i > 3] = 0
        y[i > 2] = x[0, 0]
        y[i > 1] += 1
        return y, x[i > 3].sum()

    check(columns, floats(2, 5, 4))
    check(masked, floats(2, 5, 4), places)


def test_an_input_that_is_overwritten(check):
    graph = check(lambda x: x.clone().add_(1) + x, floats(2, 4))
    assert not graph.updates


def test_a_buffer_that_counts(check):
    class Counts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.zeros(4))

        def forward(self, x):
            return x * 2

    class Sums(Counts):
        def forward(self, x):
            self.total += 1
            return x + self.total * 0

    assert not check(Counts(), floats(2, 4)).updates
    from regraft.frontends.options import LoadOptions
    from regraft.frontends.torch_module import read

    graph = read(Sums(), [("", floats(2, 4))], LoadOptions())
    (key,) = graph.updates
    assert graph.parameter(key).declared == "total"
    assert graph.producer(graph.updates[key]).op_type == "Add"


def test_a_region_without_gradients_is_inlined(check):
    def function(x):
        y = x * 2
        with torch.no_grad():
            z = y + torch.tensor([1.0, 2.0, 3.0, 4.0])
        return y + z

    check(function, floats(2, 4))


def test_an_operator_whose_twin_has_another_overload(check):
    def divided(x):
        y = (x * 10).to(torch.int64)
        y.floor_divide_(torch.tensor(3))
        return y

    check(divided, floats(2, 4))
