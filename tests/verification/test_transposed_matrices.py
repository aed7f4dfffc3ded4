"""A port whose layers hold a matrix transposed, and multiply so, is right; its checkpoint is converted so.

GPT-2's layers hold (in, out), MindSpore's Dense (out, in).
"""

from pathlib import Path

import mindspore as ms
import numpy as np
import pytest
import torch
from mindspore import nn, ops

import regraft

SHAPE = "2x3x4"


class Conv1D(torch.nn.Module):
    def __init__(self, size: int, out: int) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(size, out))
        self.bias = torch.nn.Parameter(torch.randn(out))

    def forward(self, x):
        return x @ self.weight + self.bias


class Source(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.wide = Conv1D(4, 12)
        self.square = Conv1D(4, 4)

    def forward(self, x):
        return self.square(torch.relu(self.wide(x)[..., :4]))


class Port(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.wide = nn.Dense(4, 12)
        self.square = nn.Dense(4, 4)

    def construct(self, x):
        return self.square(ops.relu(self.wide(x)[..., :4]))


class Square(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.square = Conv1D(4, 4)

    def forward(self, x):
        return self.square(x)


class SquarePort(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.square = nn.Dense(4, 4)

    def construct(self, x):
        return self.square(x)


def given(port: nn.Cell, source: torch.nn.Module) -> nn.Cell:
    """The port with the source's values, transposed where they are matrices."""
    values = {name: value.detach().numpy() for name, value in source.named_parameters()}
    for parameter in port.get_parameters():
        value = values[parameter.name]
        parameter.set_data(ms.Tensor(np.ascontiguousarray(value.T)))
    return port


def test_a_port_is_right_where_shapes_tell_it_and_trains_equal() -> None:
    torch.manual_seed(1)
    report = regraft.verify(Source(), Port(), (SHAPE,), train=True)
    text = report.render()
    assert report.passed, text
    assert "`wide.weight`, `square.weight`" in text
    assert "4 of 4 parameters and statistics trained one step" in text


def test_a_port_with_converted_values_is_right() -> None:
    torch.manual_seed(2)
    for source, port in ((Source(), Port()), (Square(), SquarePort())):
        report = regraft.verify(source, given(port, source), (SHAPE,), copy=False)
        assert report.passed, report.render()


def test_values_that_are_not_transposed_are_seen() -> None:
    torch.manual_seed(3)
    source = Source()
    port = given(Port(), source)
    port.square.weight.set_data(ms.Tensor(source.square.weight.detach().numpy()))
    assert not regraft.verify(source, port, (SHAPE,), copy=False).passed


def test_a_square_matrix_alone_may_be_a_mistake() -> None:
    torch.manual_seed(4)
    report = regraft.verify(Square(), SquarePort(), (SHAPE,))
    assert not report.passed
    assert "weight multiplied as (in, out) against (out, in): Dense `square`" in report.render()


def test_the_map_that_is_written_converts_a_checkpoint(tmp_path: Path) -> None:
    torch.manual_seed(5)
    source = Source()
    regraft.verify(source, Port(), (SHAPE,), write_map=tmp_path / "map.json")
    torch.save(source.state_dict(), tmp_path / "a.pth")
    regraft.convert_checkpoint(tmp_path / "a.pth", tmp_path / "a.ckpt", tmp_path / "map.json")
    port = Port()
    missing, _ = ms.load_param_into_net(port, ms.load_checkpoint(str(tmp_path / "a.ckpt")))
    assert not missing
    x = np.random.default_rng(5).normal(size=(2, 3, 4)).astype(np.float32)
    with torch.no_grad():
        expected = source(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(port(ms.Tensor(x)).asnumpy(), expected, rtol=1e-4, atol=1e-5)


class Narrow(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Dense(4, 10)

    def construct(self, x):
        return self.fc(x)[..., :4]


class Wide(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(4, 12)

    def forward(self, x):
        return self.fc(x)[..., :4]


@pytest.mark.parametrize("wrong", ["has_bias=True", "has_bias=False"])
def test_a_bias_of_both_layers_is_no_setting_where_another_size_parts_them(wrong: str) -> None:
    report = regraft.verify(Wide(), Narrow(), (SHAPE,))
    assert not report.passed
    assert wrong not in report.render()
