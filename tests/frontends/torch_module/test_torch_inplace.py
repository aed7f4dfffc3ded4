"""In-place operators and views become single assignments, or are refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.torch_version import TorchVersion

import regraft
from regraft.frontends.options import LoadOptions

KEEPS_SIZES = TorchVersion(torch.__version__) >= "2.12"
"""Whether torch leaves the sizes open of a tensor whose diagonal is written."""


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


def test_writes_into_the_parts_of_a_split_are_seen_by_the_whole(check):
    def function(x):
        y = x.new_zeros(3, x.shape[0])
        for number, row in enumerate(y):
            row.copy_(x[:, 0] - number)
        y *= 2
        _, right = y.chunk(2, 1)
        right.add_(1)
        upper, *_ = y.split([1, 2])
        upper.mul_(3)
        with torch.no_grad():
            left, *_ = y.split(1, dim=-1)
            left.sub_(5)
        return y.abs(), upper + left

    check(function, floats(4, 3), dynamic=False)  # unpacking fixes the number of columns


def test_a_tensor_may_give_up_its_memory_once_nothing_reads_it(check):
    def function(x):
        first, second = x.chunk(2, -1)  # as reversible blocks do
        total = first + second.sin()
        with torch.no_grad():
            first.set_()
        return total, second * 2

    check(function, floats(2, 4), dynamic=False)


@pytest.mark.parametrize("read", [lambda y, _: y + 1, lambda _, view: view + 1], ids=["itself", "a view"])
def test_a_read_of_given_up_memory_is_refused(read):
    class Reads(nn.Module):
        def forward(self, x):
            y = x * 2
            view = y.view(2, 4)
            y.set_()
            return read(y, view)

    with pytest.raises(regraft.UnsupportedError, match="read after `set_"):
        regraft.load(Reads(), [floats(2, 4)])


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


@pytest.mark.parametrize(
    "view",
    [
        lambda y: y.chunk(2, 1)[1],
        lambda y: y.split([1, 3], 1)[0],
        lambda y: torch.tensor_split(y, 3, dim=1)[1],
        lambda y: y.narrow(1, 1, 2),
        lambda y: y.swapaxes(0, 1)[1],
        lambda y: y.movedim(0, -1)[0],
        lambda y: y.mT[1],
        lambda y: y.ravel()[2:5],
        lambda y: y.diagonal(1),
        lambda y: y.data[:, 1],
    ],
)
def test_a_write_into_a_view_that_pytorch_makes_a_new_value_of(check, view):
    def function(x):
        y = x * 2
        part = view(y)
        part.mul_(3)
        part += 1
        return y, part, y.sum(1)

    check(function, floats(2, 4), dynamic=KEEPS_SIZES or "diagonal" not in view.__code__.co_names)


def test_parts_of_a_tensor_that_are_written_one_after_the_other(check):
    def function(x):
        y = x + 0
        a, b = y.chunk(2, -1)
        a.mul_(b)
        b += a
        return y, a

    check(function, floats(2, 4))


@pytest.mark.parametrize(
    "write",
    [
        lambda x, out: torch.add(x, 1, out=out),
        lambda x, out: torch.matmul(x, x[0, :, None] * torch.ones(4), out=out),
        lambda x, out: torch.sigmoid(out, out=out),
        lambda x, out: torch.mul(x[:, :2], 2, out=out[:, 1:3]),
    ],
)
def test_results_given_by_out(check, write):
    def function(x):
        y = x * 0.5
        write(x, y)
        return y * 2, y

    check(function, floats(2, 4))


def test_columns_that_are_written_one_by_one(check):
    def function(x):
        y = x + 0
        for column in y.unbind(1):
            column.copy_(column.abs().sqrt())
        return y

    check(function, floats(2, 4))


def test_rows_that_are_updated_from_those_before(check):
    """The chunked delta rule of gated linear attention: views of every step, dead after it."""

    def function(x):
        a = x.matmul(x.transpose(-1, -2)).tril(-1)
        first = a[..., :2, :]
        for i in range(1, 6):
            row = a[..., i, :i].clone()
            part = a[..., :i, :i].clone()
            a[..., i, :i] = row + (row.unsqueeze(-1) * part).sum(-2)
        return a + torch.eye(6), first * 2

    check(function, floats(2, 6, 3))


def test_views_that_nothing_reads_any_more_are_not_lowered_again(monkeypatch):
    from regraft.frontends.torch_module.aliases import Aliases

    replayed = []
    original = Aliases.__init__

    def counting(self, graph, environment, replay, write_back):
        original(self, graph, environment, lambda node: replayed.append(node) or replay(node), write_back)

    monkeypatch.setattr(Aliases, "__init__", counting)

    class Rows(nn.Module):
        def forward(self, x):
            y, kept = x * 2, None
            for i in range(20):
                kept = y[:, i]
                y[:, i] = kept + 1
            return y, kept

    graph = regraft.load(Rows(), (floats(2, 20),))
    assert len(graph.outputs) == 2
    assert len(replayed) <= 20


def test_results_given_by_out_in_another_size_and_two_at_once(check):
    def function(x):
        joined, values, places = torch.empty(0), x.new_empty(len(x)), torch.empty(len(x), dtype=torch.int64)
        torch.cat([x, x], 1, out=joined)
        torch.max(x, 1, out=(values, places))
        return joined, values, places

    check(function, floats(2, 4), dynamic=False)


def test_a_diagonal_filled_and_axes_swapped_in_place(check):
    def function(x):
        y = x + 1
        y.fill_diagonal_(7)
        y.transpose_(0, 1)
        return y, y.unsqueeze_(0) * 2

    check(function, floats(3, 4), dynamic=False)
    check(lambda x: (x * 2).fill_diagonal_(0.5), floats(3, 4), dynamic=KEEPS_SIZES)


def test_a_model_without_writes_is_not_traced_again():
    from regraft.frontends.torch_module.export.capture import capture
    from regraft.frontends.torch_module.export.functionalise import functionalised

    captured = capture(nn.Linear(4, 4), [("", floats(2, 4))], LoadOptions())
    assert functionalised(captured) is None


def test_writes_keep_layers_calls_and_dropouts(check):
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.drop = nn.Linear(4, 4), nn.Dropout(0.3)

        def forward(self, x):
            a, b = self.layer(self.drop(x)).chunk(2, 1)
            a.mul_(b)
            return self.layer(torch.cat([a, b], 1))

    graph = check(Net(), floats(2, 4))
    names = [node.op_type for node in graph.operators()]
    assert names.count("Linear") == 2
    assert names.count("Dropout") == 1
    assert "layer#2" in graph.modules.call_names().values()


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


def test_a_buffer_that_a_forward_registers_first_overwrites_no_input():
    class Scaled(nn.Module):
        def forward(self, x):
            self.register_buffer("scale", x[:1] * 2, persistent=False)
            return x * self.scale

    class Written(nn.Module):
        def forward(self, x):
            x.copy_(x[:1] * 2)
            return x + 1

    for net, count in ((Scaled(), 0), (Written(), 1)):
        graph = regraft.load(net, (torch.randn(2, 4),))
        assert sum("overwrites its input" in note for note in graph.origin.notes) == count
        assert regraft.verify(graph, graph).passed


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
