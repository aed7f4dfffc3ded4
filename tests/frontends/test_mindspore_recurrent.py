"""Recurrent Cells are read whole, whatever MindSpore compiles them to; their numbers are in the matrix."""

import mindspore as ms
import numpy as np
import pytest
from mindspore import nn

from regraft.frontends.mindspore_cell import read
from regraft.frontends.options import LoadOptions
from regraft.ir import validate


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.stack = nn.LSTM(4, 5, 2, bidirectional=True, batch_first=True, dropout=0.1)
        self.again = nn.GRU(10, 5, has_bias=False)
        self.cell = nn.RNNCell(5, 5, nonlinearity="relu")

    def construct(self, x):
        x, (h, _) = self.stack(x)
        x, last = self.again(x)
        x, more = self.again(x.tile((1, 1, 2)), last)
        return self.cell(x[0], more[0]) + h[0, 0, 0]


@pytest.fixture(scope="module")
def graph():
    x = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)
    found = read(Net(), [("", x)], LoadOptions())
    validate(found)
    return found


def test_each_call_is_one_operator_of_its_module(graph):
    whole = [n for n in graph.operators() if n.domain == "regraft"]
    assert [n.op_type for n in whole] == ["LSTM", "GRU", "GRU", "RNNCell"]
    tree = graph.modules
    assert [tree.path(tree.call(n.call).module) for n in whole] == ["stack", "again", "again", "cell"]
    assert [len(graph.operands(n.key)) for n in whole] == [20, 5, 5, 6]
    assert {m.class_name for m in tree} == {"Net", "LSTM", "GRU", "RNNCell"}


def test_attributes(graph):
    stack, gru, _, cell = (n for n in graph.operators() if n.domain == "regraft")
    assert stack.attributes["dropout"] == pytest.approx(0.1)
    assert stack.attributes["bidirectional"] == stack.attributes["batch_first"] == 1
    assert gru.attributes == {"hidden_size": 5, "has_bias": 0}
    assert cell.attributes == {"nonlinearity": "relu"}


def test_a_subclass_with_a_construct_of_its_own_is_what_it_computes():
    class Summed(nn.GRUCell):
        def construct(self, x, hx):
            return ms.ops.matmul(x, self.weight_ih.T).sum(-1) + hx.sum()

    x = np.ones((2, 4), np.float32)
    found = read(Summed(4, 5), [("", x), ("", np.ones((2, 5), np.float32))], LoadOptions())
    assert all(n.op_type != "GRUCell" for n in found.operators())
