"""Axes that are open: windows along them, and how they are named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnxruntime
import pytest
import torch
from torch.nn import functional as F

import regraft
from regraft.ir import ModelError

from .comparison import Function


def spectrum(x: torch.Tensor) -> torch.Tensor:
    return torch.stft(x, 32, 8, window=torch.hann_window(32), return_complex=True).abs()


WINDOWS = {
    "windows of one axis": (lambda x: x.unfold(-1, 4, 2), (1, 3, 24), (0, 2), [(2, 3, 11), (1, 3, 4)]),
    "windows with gaps": (lambda x: x.unfold(1, 1, 3), (2, 9, 3), (0, 1), [(2, 4, 3)]),
    "windows of windows": (
        lambda x: x.unfold(2, 4, 2).unfold(3, 3, 1),
        (1, 3, 8, 10),
        (0, 2, 3),
        [(2, 3, 6, 7)],
    ),
    "patches": (
        lambda x: F.unfold(x, (2, 3), dilation=(2, 1), padding=(1, 0), stride=(2, 1)),
        (2, 3, 6, 7),
        (0, 2, 3),
        [(1, 3, 5, 9)],
    ),
    "averages of a number of windows": (
        lambda x: F.adaptive_avg_pool2d(x, (2, 3)),
        (2, 3, 12, 10),
        (0, 2, 3),
        [(1, 3, 7, 4), (3, 3, 1, 2)],
    ),
    "averages along some axes": (
        lambda x: (F.adaptive_avg_pool2d(x, (1, 3)).squeeze(2), F.adaptive_avg_pool2d(x, (None, 2)))[1],
        (2, 3, 12, 10),
        (0, 2, 3),
        [(1, 3, 5, 7)],
    ),
    "averages of volumes, one axis open": (
        lambda x: F.adaptive_avg_pool3d(x, (2, 3, 1)),
        (2, 3, 4, 5, 6),
        (3,),
        [(2, 3, 4, 11, 6)],
    ),
    "averages of lines": (lambda x: F.adaptive_avg_pool1d(x, 4), (2, 3, 10), (0, 2), [(1, 3, 9)]),
    "largest of a number of windows": (
        lambda x: F.adaptive_max_pool2d(x, (2, 3)),
        (2, 3, 12, 10),
        (0, 2, 3),
        [(1, 3, 7, 4), (3, 3, 1, 2)],
    ),
    "their places": (
        lambda x: F.adaptive_max_pool2d(x, (3, 2), return_indices=True)[1],
        (2, 3, 12, 10),
        (0, 3),
        [(1, 3, 12, 7)],
    ),
    "new complex numbers for each of a batch": (
        lambda x: (
            x.new_zeros(x.shape[0], 3, dtype=torch.cfloat)
            + torch.ones(x.shape[0], 3, dtype=torch.cfloat) * torch.full((x.shape[0], 3), 1 + 2j)
            + torch.complex(x, 2 * x).new_ones(x.shape[0], 1) * x
        ).angle(),
        (2, 3),
        (0,),
        [(1, 3), (4, 3)],
    ),
    "sizes of which a run computes 0": (
        lambda x: torch.cat([x[:, 2:].reshape(x.shape[1] - 2, x.shape[0]).sum(0), x[0]]),
        (3, 6),
        (0, 1),
        [(4, 2), (1, 2), (2, 5)],
    ),
    "a size of 0 beside one that is asked for": (
        lambda x: x[:, 2:].unsqueeze(0).reshape(1, x.shape[1] - 2, x.shape[0]) * 2,
        (3, 6),
        (0, 1),
        [(4, 2), (1, 2)],
    ),
    "spectra of sounds": (spectrum, (2, 160), (0, 1), [(1, 250), (3, 77)]),
}


@pytest.mark.parametrize(("function", "shape", "axes", "others"), WINDOWS.values(), ids=list(WINDOWS))
def test_windows_along_an_open_axis(
    function: Callable[..., torch.Tensor],
    shape: tuple[int, ...],
    axes: tuple[int, ...],
    others: list[tuple[int, ...]],
    tmp_path: Path,
) -> None:
    torch.manual_seed(0)
    graph = regraft.load(Function(function), (torch.randn(shape),), dynamic={"arguments_0": axes})
    assert not any("static shapes" in note for note in graph.origin.notes)
    for target in ("onnx", "mindspore"):
        out = tmp_path / ("net.onnx" if target == "onnx" else "net")
        regraft.save(regraft.rewrite(graph).graph, out, to=target)
        report = regraft.verify(graph, out)
        assert report.passed, report.render()
    session = onnxruntime.InferenceSession(str(tmp_path / "net.onnx"), providers=["CPUExecutionProvider"])
    for other in others:
        x = torch.randn(other)
        (found,) = session.run(None, {"arguments_0": x.numpy()})
        torch.testing.assert_close(torch.from_numpy(found), function(x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("dynamic", "message"),
    [
        ({"x": [0]}, "E103 expected dynamic axes of inputs among arguments_0, got `x`"),
        ({"arguments_0": [0, 5]}, "E103 expected axes of `arguments_0` below its rank 2, got [0, 5]"),
    ],
)
def test_an_axis_that_no_input_has_is_named(dynamic: dict[str, list[int]], message: str) -> None:
    with pytest.raises(ModelError) as refusal:
        regraft.load(Function(lambda x: x * 2), (torch.ones(2, 3),), dynamic=dynamic)
    assert str(refusal.value).startswith(message)


class Orders:
    """Stands for opt_einsum, which is not installed here: it compares the sizes that it is given."""

    strategy = "auto"
    enabled = True

    def is_available(self) -> bool:
        return True

    def get_opt_einsum(self) -> Orders:
        return self

    def contract_path(self, _: str, *operands: Any, shapes: bool = False, **__: Any) -> Any:
        sizes = [n for each in operands for n in (each if shapes else each.shape)]
        assert max(int(n) for n in sizes) > 1
        return [(0, 2), (0, 1)], ""


def test_the_order_of_a_product_fixes_no_size(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(torch.backends, "opt_einsum", Orders())

    def product(x: torch.Tensor) -> torch.Tensor:
        return torch.einsum("bnd,bde,bn->bne", x, x.transpose(1, 2) @ x, x.sum(-1))

    graph = regraft.load(Function(product), (torch.randn(2, 4, 3),), dynamic={"arguments_0": [0, 1]})
    assert graph.origin.notes == ["captured in evaluation mode"]
    regraft.save(graph, tmp_path / "net.onnx", to="onnx")
    assert regraft.verify(graph, tmp_path / "net.onnx").passed
