"""Ranges of an axis, written and read, at every size of an open axis: empty ones too."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
import onnxruntime
import pytest
import torch
from torch import Tensor, nn

import regraft
from regraft.frontends.python_file import load_object

Function = Callable[[Tensor], "Tensor | tuple[Tensor, ...]"]
_SIZES = 1, 2, 3, 4, 7


def _writes(*ranges: str, value: str = " = 5.0") -> dict[str, Function]:
    """A copy of the input with a range written, by the text of the range."""
    found: dict[str, Function] = {}
    for text in ranges:
        names: dict[str, Any] = {}
        exec(f"def function(x):\n    y = x * 2\n    y[{text}]{value}\n    return y", names)
        found[f"y[{text}]{value}"] = names["function"]
    return found


def _inner_mask(x: Tensor) -> Tensor:
    y = x * 2
    y[x[:, 0] > 0, 1:-1] = 5.0
    return y


def _mask_in_a_view(x: Tensor) -> Tensor:
    y = x * 2
    y[:, 1:-1].masked_fill_(x[:, 1:-1] > 0, 3.0)
    return y


def _computed_bounds(x: Tensor) -> Tensor:
    y, n = x * 2, x.shape[1]
    y[:, n - 3 : n - 1] = 0
    y[:, n // 2 :] += 1
    return y


def _shifted(x: Tensor) -> Tensor:
    y = torch.zeros_like(x)
    y[:, 2:] = x[:, :-2]
    y[:-1, :1] += x[1:, :1]
    return y


def _filled_up(x: Tensor) -> Tensor:
    return torch.cat([x[:, 2:], torch.zeros_like(x[:, :2])], 1)


def _parts(x: Tensor) -> Tensor:
    return x[:, 1:-1].reshape(x.shape[0], -1, 1)


def _functional(x: Tensor) -> Tensor:
    y = torch.slice_scatter(x, x[:, 1:-1] * 2, 1, 1, -1)
    return torch.select_scatter(y, x[:, 0], 1, -1)


OPEN: dict[str, Function] = {
    **_writes(
        ":, 1:-1", ":, -2:2", ":, -3:", ":, :-3", ":, 2:5", ":, ::2", ":, 1:-1:2", ":, 5:-1:3", "0, 1:-1"
    ),
    **_writes("1:-1, 2:-2", value=" += x[1:-1, 2:-2]"),
    **_writes(":, 1:-1", value=".copy_(x[:, :-2])"),
    **_writes(":, -2:2", ":, 2:0", value=" *= 3"),
    **_writes(":, 2:-2", value=".fill_(4)"),
    **{
        f.__name__: f
        for f in (_inner_mask, _mask_in_a_view, _computed_bounds, _shifted, _filled_up, _functional, _parts)
    },
    "read": lambda x: (x[:, 1:-1] * 2, x[:, -3:] + 1, x[:, 2:5] + 1, x[:, 4:2] + 1, x[:, 1:-1:2] + 1),
}
FIXED: dict[str, Function] = {
    **_writes(":, 6:4", ":, -2:2", ":, 20:30", ":, -20:-10", ":, -20:3", ":, 6:4:2", ":, -20:20:3"),
    **_writes(":, -2:2", value=" += 1"),
    "read": lambda x: (x[:, 6:4] + 1, x[:, -2:2] + 1, x[:, -20:20:3] + 1),
}


class _Net(nn.Module):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> object:
        return self.function(x)


def _run_onnx(graph: regraft.Graph, folder: Path) -> Callable[[np.ndarray], list[np.ndarray]]:
    regraft.save(graph, folder / "net.onnx")
    session = onnxruntime.InferenceSession(folder / "net.onnx", providers=["CPUExecutionProvider"])
    (name,) = [given.name for given in session.get_inputs()]
    return lambda x: [np.asarray(y) for y in session.run(None, {name: x})]


def _run_mindspore(graph: regraft.Graph, folder: Path) -> Callable[[np.ndarray], list[np.ndarray]]:
    regraft.save(graph, folder / "net", "mindspore")
    net: Any = load_object(f"{folder / 'net' / 'model.py'}:build", {"checkpoint": None})

    def run(x: np.ndarray) -> list[np.ndarray]:
        found = net(ms.Tensor(x))
        return [y.asnumpy() for y in (found if isinstance(found, tuple) else (found,))]

    return run


@pytest.mark.parametrize("run_in", [_run_onnx, _run_mindspore])
@pytest.mark.parametrize("name", [*OPEN, *(f"{name}, sizes fixed" for name in FIXED)])
def test_a_range_is_that_of_the_source_at_every_size(name, run_in, tmp_path):
    is_open = name in OPEN
    net = _Net(OPEN[name] if is_open else FIXED[name.removesuffix(", sizes fixed")]).eval()
    shape, axes = ("4x6", [0, 1]) if is_open else ("2x8", [0])
    graph = regraft.load(net, {"x": shape}, dynamic={"x": axes})
    run = run_in(regraft.rewrite(graph).graph, tmp_path)
    for rows, columns in product(_SIZES, _SIZES if is_open else [8]):
        x = np.random.default_rng(rows).standard_normal((rows, columns)).astype(np.float32)
        expected = net(torch.from_numpy(x))
        expected = expected if isinstance(expected, tuple) else (expected,)
        for want, got in zip(expected, run(x), strict=True):
            assert got.shape == tuple(want.shape), x.shape
            assert np.allclose(got, want.numpy(), atol=1e-6), x.shape
