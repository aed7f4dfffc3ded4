"""Nets that keep their own weights: which layer makes its values larger or smaller, and by which law."""

from typing import Any

import mindspore as ms
import pytest
import torch
from mindspore.common.initializer import Normal, initializer
from torch import nn as tnn

import regraft
from regraft.verification.two_nets.magnitudes import MagnitudeRow, magnitude_lines
from regraft.verification.two_nets.report import Nets

nn, ops = ms.nn, ms.ops


class Original(tnn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = tnn.Conv2d(3, 32, 3, padding=1, bias=False)
        self.mid = tnn.Conv2d(32, 32, 3, padding=1, bias=False)
        self.fc = tnn.Linear(32, 20, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(torch.relu(self.mid(torch.relu(self.conv(x)))).mean((2, 3)))


class Port(nn.Cell):
    def __init__(self, law: Any = None) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 32, 3, pad_mode="pad", padding=1)
        self.mid = nn.Conv2d(32, 32, 3, pad_mode="pad", padding=1)
        self.head = nn.Dense(32, 20, has_bias=False)
        if law is not None:
            self.stem.weight.set_data(initializer(law, self.stem.weight.shape, self.stem.weight.dtype))

    def construct(self, x):
        return self.head(ops.relu(self.mid(ops.relu(self.stem(x)))).mean((2, 3)))


def nets_of(port: Port, *, train: bool = False) -> Nets:
    torch.manual_seed(0)
    report = regraft.verify(Original(), port, ("4x3x8x8",), copy=False, train=train)
    assert report.nets is not None
    return report.nets


def test_the_layer_with_another_law_is_named_and_what_inherits_it_is_not() -> None:
    ms.set_seed(0)
    nets = nets_of(Port(Normal(0.6)), train=True)
    assert [row.layer for row in nets.magnitudes if row.is_apart] == ["conv"]
    row = nets.magnitudes[0]
    assert row.target == "stem"
    assert row.outputs == pytest.approx(0.6 * 27**0.5 * 3**0.5, rel=0.3)  # torch's: 1 / sqrt(3 * 27)
    assert row.gradients is not None
    assert nets.magnitudes[1].outputs > 3  # it is given what is larger
    assert nets.magnitudes[1].gain < 1.5
    text = "\n".join(magnitude_lines(nets.magnitudes))
    assert "`conv` (`stem`): outputs " in text
    assert ": its initial law is " in text
    assert "weight_init=HeUniform(math.sqrt(5))" in text


def test_equal_laws_are_not_called_apart() -> None:
    nets = nets_of(Port())
    assert len(nets.magnitudes) == 3
    assert not any(row.is_apart for row in nets.magnitudes)
    assert all(row.gradients is None for row in nets.magnitudes)


def test_nets_of_equal_weights_have_no_magnitudes() -> None:
    torch.manual_seed(0)
    report = regraft.verify(Original(), Port(), ("4x3x8x8",))
    assert report.nets is not None
    assert report.nets.magnitudes == []


def test_the_text_says_what_enters() -> None:
    row = MagnitudeRow("a", "a", 2.0, 0.5, 0.25, "normal(std=0.1), he_uniform in the source", "weight_init=…")
    assert magnitude_lines([row])[2:4] == [
        "  `a`: outputs 2 times larger in the target of inputs 4 times larger, gradients 4 times smaller: "
        "its initial law is normal(std=0.1), he_uniform in the source",
        "    write: weight_init=…",
    ]
