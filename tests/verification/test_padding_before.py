"""What pads before a convolution is its padding; another mode of it is named with what to write."""

import mindspore as ms
import pytest
import torch
from torch import nn as tnn

import regraft

nn, ops = ms.nn, ms.ops

SHAPES = {1: (2, 3, 9), 2: (2, 3, 9, 8), 3: (1, 3, 6, 6, 6)}
PADDING = {1: (2,), 2: (1, 2), 3: (1, 1, 1)}
AROUND = {1: (2, 2), 2: (2, 2, 1, 1), 3: (1, 1, 1, 1, 1, 1)}


class Source(tnn.Module):
    def __init__(self, rank: int, mode: str) -> None:
        super().__init__()
        layer = (tnn.Conv1d, tnn.Conv2d, tnn.Conv3d)[rank - 1]
        self.conv = layer(3, 4, 3, padding=PADDING[rank], padding_mode=mode)

    def forward(self, x):
        return self.conv(x)


class Naive(nn.Cell):
    """Pads zeros."""

    def __init__(self, rank: int) -> None:
        super().__init__()
        layer = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[rank - 1]
        padding = {1: 2, 2: (1, 1, 2, 2), 3: 1}[rank]
        self.conv = layer(3, 4, 3, pad_mode="pad", padding=padding, has_bias=True)

    def construct(self, x):
        return self.conv(x)


class Padded(nn.Cell):
    def __init__(self, rank: int, mode: str) -> None:
        super().__init__()
        layer = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[rank - 1]
        self.conv = layer(3, 4, 3, pad_mode="valid", has_bias=True)
        self.around, self.mode = AROUND[rank], mode

    def construct(self, x):
        if self.mode == "reflect" and len(self.around) == 6:
            return self.conv(nn.ReflectionPad3d(self.around)(x))
        return self.conv(ops.pad(x, self.around, mode=self.mode))


class InTorch(tnn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = tnn.Conv2d(3, 4, 3, padding=(1, 2))

    def forward(self, x):
        return self.conv(x)


CASES = [(1, "circular"), (2, "reflect"), (2, "replicate"), (3, "reflect")]


@pytest.mark.parametrize(("rank", "mode"), CASES)
def test_another_mode_is_named_with_the_call_to_write(rank: int, mode: str) -> None:
    report = regraft.verify(Source(rank, mode), Naive(rank), (torch.randn(SHAPES[rank]),))
    assert not report.passed
    (row,) = report.nets.settings
    assert str(row) == f"padding_mode {mode} against zeros"
    written = f'ops.pad(x, {AROUND[rank]}, mode="{mode}")'
    written = f"nn.ReflectionPad3d({AROUND[rank]})(x)" if (rank, mode) == (3, "reflect") else written
    assert row.write == f'pad_mode="valid", padding=0, self.conv({written})'
    assert not report.nets.calls  # half of that edit would be worse than none


@pytest.mark.parametrize(("rank", "mode"), CASES)
def test_what_is_written_so_is_equal(rank: int, mode: str) -> None:
    report = regraft.verify(Source(rank, mode), Padded(rank, mode), (torch.randn(SHAPES[rank]),))
    assert report.passed, report.render()
    assert not report.nets.settings


def test_zeros_may_be_padded_before_a_convolution() -> None:
    report = regraft.verify(Source(2, "zeros"), Padded(2, "constant"), (torch.randn(SHAPES[2]),))
    assert report.passed, report.render()
    assert not report.nets.settings


@pytest.mark.parametrize(("source", "target"), [("reflect", "constant"), ("zeros", "reflect")])
def test_the_mode_of_a_pad_in_the_target_is_named_at_its_call(source: str, target: str) -> None:
    report = regraft.verify(Source(2, source), Padded(2, target), (torch.randn(SHAPES[2]),))
    assert not report.passed
    assert [row.write for row in report.nets.settings] == [
        f'mode="{"constant" if source == "zeros" else source}"'
    ]


def test_torch_has_an_argument_for_it() -> None:
    report = regraft.verify(Source(2, "reflect"), InTorch(), (torch.randn(SHAPES[2]),))
    assert not report.passed
    assert [row.write for row in report.nets.settings] == ['padding=(1, 2), padding_mode="reflect"']
