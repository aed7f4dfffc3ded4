"""Recurrent layers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from regraft.frontends.options import LoadOptions

ARGUMENTS = [
    {"batch_first": True},
    {"batch_first": True, "num_layers": 2, "bidirectional": True, "dropout": 0.2},
    {"batch_first": True, "bias": False, "bidirectional": True},
    {"batch_first": True, "num_layers": 3, "bias": False},
]
PROJECTED = [
    {"proj_size": 3},
    {"proj_size": 3, "num_layers": 2, "bidirectional": True, "bias": False},
]


def draw(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def states(cls, arguments, batch=()):
    rows = arguments.get("num_layers", 1) * (2 if arguments.get("bidirectional") else 1)
    widths = [arguments.get("proj_size", 5), 5] if cls is nn.LSTM else [5]
    return [draw(rows, *batch, width) for width in widths]


class Given(nn.Module):
    """The layer with its initial states as inputs, batch first; an LSTM takes them as a pair."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x, *hx):
        hx = [h.transpose(0, 1).contiguous() for h in hx]
        return self.layer(x, tuple(hx) if len(hx) > 1 else hx[0])


@pytest.mark.parametrize("arguments", ARGUMENTS)
@pytest.mark.parametrize("cls", [nn.LSTM, nn.GRU, nn.RNN])
def test_a_stack_is_one_operator_without_states(check, cls, arguments):
    graph = check(cls(4, 5, **arguments), draw(2, 6, 4))
    (node,) = graph.operators()
    assert node.qualified_name == f"regraft.{cls.__name__}"
    assert {k: bool(node.attributes.get(k)) for k in ("dropout", "bidirectional")} == {
        k: bool(arguments.get(k)) for k in ("dropout", "bidirectional")
    }


@pytest.mark.parametrize("arguments", [*ARGUMENTS[1:], *PROJECTED])
@pytest.mark.parametrize("cls", [nn.LSTM, nn.GRU, nn.RNN])
def test_given_states(check, cls, arguments):
    if "proj_size" in arguments and cls is not nn.LSTM:
        return
    arguments = {"batch_first": True, **arguments}
    hx = [h.transpose(1, 0, 2) for h in states(cls, arguments, (2,))]
    check(Given(cls(4, 5, **arguments)), draw(2, 6, 4), *hx)


@pytest.mark.parametrize("arguments", PROJECTED)
def test_projections(check, arguments):
    check(nn.LSTM(4, 5, batch_first=True, **arguments), draw(2, 6, 4))


@pytest.mark.parametrize("cls", [nn.LSTM, nn.GRU])
def test_sequence_first_and_unbatched(check, cls):
    options = LoadOptions(dynamic={"input": (1,)})
    check(cls(4, 5, 2, bidirectional=True), draw(6, 2, 4), options=options, dynamic=False)
    check(cls(4, 5, 2, bidirectional=True), draw(6, 4), dynamic=False)
    layer = cls(4, 5)
    hx = [torch.from_numpy(h) for h in states(cls, {})]
    check(lambda x: layer(x, tuple(hx) if len(hx) > 1 else hx[0]), draw(6, 4), dynamic=False)


def test_rnn_with_relu_and_a_given_state(check):
    layer = nn.RNN(4, 5, nonlinearity="relu", batch_first=True)
    check(layer, draw(2, 6, 4), draw(1, 2, 5), dynamic=False)


CELLS = [
    (nn.LSTMCell, {}),
    (nn.LSTMCell, {"bias": False}),
    (nn.GRUCell, {}),
    (nn.GRUCell, {"bias": False}),
    (nn.RNNCell, {}),
    (nn.RNNCell, {"nonlinearity": "relu", "bias": False}),
]


@pytest.mark.parametrize(("cls", "arguments"), CELLS)
def test_cells(check, cls, arguments):
    cell = cls(4, 5, **arguments)
    graph = check(cell, draw(2, 4))
    assert [n for n in graph.operators() if n.op_type == cls.__name__]
    check(
        lambda x, *hx: cell(x, hx if len(hx) > 1 else hx[0]),
        draw(2, 4),
        *states(cls, {}, (2,))[:1],
        draw(2, 5),
    ) if False else None
    hx = [draw(2, 5), draw(2, 5) + 1][: 2 if cls is nn.LSTMCell else 1]
    check(lambda x, *h: cell(x, h if len(h) > 1 else h[0]), draw(2, 4), *hx)
    check(cell, draw(4), dynamic=False)


class Unrolled(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(4, 5)
        self.head = nn.Linear(5, 2)

    def forward(self, x):
        h = c = x.new_zeros(x.size(0), 5)
        for t in range(x.size(1)):
            h, c = self.cell(x[:, t], (h, c))
        return self.head(h)


def test_an_unrolled_cell_keeps_the_batch_symbolic(check):
    graph = check(Unrolled(), draw(2, 3, 4))
    assert sum(n.op_type == "LSTMCell" for n in graph.operators()) == 3
