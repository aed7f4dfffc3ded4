"""Calls of one Cell that a loop or a compiled function makes: each operator is in the call that made it."""

from __future__ import annotations

import os

import mindspore as ms
import numpy as np
import pytest
from mindspore import nn, ops

import regraft


class _Gru(nn.Cell):
    """Both arguments of a call come from elsewhere: from a slice, and from the call before."""

    def __init__(self):
        super().__init__()
        self.step = nn.GRUCell(4, 5)

    def construct(self, x):
        state = ops.zeros((x.shape[0], 5))
        for t in range(x.shape[1]):
            state = self.step(x[:, t], state)
        return state


class _Lstm(nn.Cell):
    """The states are in a tuple."""

    def __init__(self):
        super().__init__()
        self.step = nn.LSTMCell(4, 5)

    def construct(self, x):
        h, c = ops.zeros((x.shape[0], 5)), ops.zeros((x.shape[0], 5))
        for t in range(x.shape[1]):
            h, c = self.step(x[:, t], (h, c))
        return h


class _Mixed(nn.Cell):
    def __init__(self):
        super().__init__()
        self.left, self.right = nn.Dense(4, 5), nn.Dense(5, 5)

    def construct(self, x, state):
        return ops.tanh(self.left(x) + self.right(state))


class _Nested(nn.Cell):
    """A Cell of two arguments, in which other Cells read one each."""

    def __init__(self):
        super().__init__()
        self.step = _Mixed()

    def construct(self, x):
        state = ops.zeros((x.shape[0], 5))
        for t in range(x.shape[1]):
            state = self.step(x[:, t], state)
        return state


@pytest.mark.parametrize(
    ("kind", "operator", "expected"),
    [
        (_Gru, "regraft.GRUCell", ["step#1", "step#2", "step#3"]),
        (_Lstm, "regraft.LSTMCell", ["step#1", "step#2", "step#3"]),
        (_Nested, "Tanh", ["step#1", "step#2", "step#3"]),
    ],
)
def test_the_steps_of_a_loop_are_calls_in_their_order(
    kind: type[nn.Cell], operator: str, expected: list[str]
) -> None:
    graph = regraft.load(kind(), [np.ones((2, 3, 4), np.float32)])
    names = graph.modules.call_names()
    steps = [o for o in graph.operators() if o.qualified_name == operator]
    assert [names[o.call] for o in steps if o.call is not None] == expected


class _Jit(nn.Cell):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Dense(4, 4), nn.Dense(4, 4)

    @ms.jit
    def construct(self, x):
        return self.a(x) * ops.sigmoid(self.b(x))


def test_cells_that_a_compiled_function_calls_are_calls() -> None:
    environment = dict(os.environ)
    graph = regraft.load(_Jit(), [np.ones((2, 4), np.float32)])
    assert {"a#1", "b#1"} <= set(graph.modules.call_names().values())
    (x,) = graph.input_nodes()
    assert x.type.shape == ("N", 4)
    assert not [n for n in graph.origin.notes if "static" in n]
    assert dict(os.environ) == environment
