"""Recurrent layers."""

from __future__ import annotations

import numpy as np
import pytest
from torch import nn

from regraft.frontends.options import LoadOptions
from regraft.frontends.torch_module import read

ARGUMENTS = [
    {"batch_first": True},
    {"batch_first": True, "num_layers": 2, "bidirectional": True, "dropout": 0.2},
    {"batch_first": True, "bias": False, "bidirectional": True},
]


@pytest.mark.parametrize("arguments", ARGUMENTS)
@pytest.mark.parametrize("cls", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent(check, cls, arguments):
    x = np.random.default_rng(0).standard_normal((2, 6, 4)).astype(np.float32)
    graph = check(cls(4, 5, **arguments), x)
    kinds = [o.op_type for o in graph.operators()]
    assert kinds.count(cls.__name__) == arguments.get("num_layers", 1)
    assert kinds.count("Dropout") == arguments.get("num_layers", 1) - 1


def test_rnn_with_relu_and_a_given_state(check):
    random = np.random.default_rng(0)
    x, h = random.standard_normal((2, 6, 4)), random.standard_normal((1, 2, 5))
    layer = nn.RNN(4, 5, nonlinearity="relu", batch_first=True)
    check(layer, x.astype(np.float32), h.astype(np.float32), dynamic=False)


def test_a_cell_whose_decomposition_fixes_its_sizes_is_static_and_says_so():
    x = np.random.default_rng(0).standard_normal((2, 4)).astype(np.float32)
    graph = read(nn.LSTMCell(4, 5), [("", x)], LoadOptions())
    assert graph.input_nodes()[0].type.shape == (2, 4)
    assert any("decomposition of `aten.lstm_cell.default`" in note for note in graph.origin.notes)
