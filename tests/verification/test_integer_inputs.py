"""Inputs that are int64 on one side and int32 on the other: cast, and said."""

import mindspore as ms
import numpy as np
import pytest
import torch
from torch import nn as tnn
from torch.nn import functional

import regraft
from regraft.ir import ModelError

nn, ops = ms.nn, ms.ops


class Original(tnn.Module):
    """`one_hot` takes int64 only."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = tnn.Linear(7, 3)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.fc(functional.one_hot(ids, 7).float())


class Port(nn.Cell):
    """A net that says which type it takes."""

    def __init__(self, takes: ms.Type = ms.int32) -> None:
        super().__init__()
        self.fc = nn.Dense(7, 3)
        self.takes = takes

    def construct(self, ids):
        if ids.dtype != self.takes:
            raise TypeError(f"labels must be {self.takes}")
        return self.fc(ops.one_hot(ids, 7, ms.Tensor(1.0), ms.Tensor(0.0)))


def test_they_are_cast_and_that_is_said() -> None:
    ids = np.random.default_rng(0).integers(0, 7, (4, 5))
    report = regraft.verify(Original(), Port(), (ids,), train=True)
    assert report.passed, report.render()
    assert "input `ids` is int64 in the source and int32 in the target: it was cast" in report.notes


def test_equal_types_are_not_remarked_on() -> None:
    ids = np.random.default_rng(0).integers(0, 7, (4, 5))
    report = regraft.verify(Original(), Port(ms.int64), (ids,))
    assert report.passed, report.render()
    assert not any("it was cast" in note for note in report.notes)


def test_a_net_that_refuses_both_says_why_it_refused_the_source_s() -> None:
    ids = np.random.default_rng(0).integers(0, 7, (4, 5))
    with pytest.raises(ModelError, match="labels must be Float16"):
        regraft.verify(Original(), Port(ms.float16), (ids,))
