"""Equal values among which an operator chooses are named: what another choice leads to is not claimed."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import regraft


class Function(nn.Module):
    def __init__(self, function: Callable[[torch.Tensor], object]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def pooled(x: torch.Tensor) -> torch.Tensor:
    return F.max_pool2d(x[:, None], 2, return_indices=True)[1]


ROWS = torch.tensor([[2.0, 0.0, 0.0, 0.0, 3.0, 1.0], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]])
PICTURE = torch.tensor([[[0.0, 0.0, 1.0, 2.0], [0.0, 0.0, 3.0, 4.0]]])


@pytest.mark.parametrize(
    ("function", "x", "said"),
    [
        (lambda x: x.topk(4)[1], ROWS, "`TopK` @ #1 (…) chooses once among equal values, up to 3"),
        (lambda x: x.topk(3)[1], ROWS, ""),
        (lambda x: x.topk(4)[0], ROWS, ""),
        (lambda x: x.sort(1)[1], ROWS, "`TopK` @ #1 (…) chooses once among equal values, up to 3"),
        (
            lambda x: x.argsort(1, descending=True),
            ROWS,
            "`TopK` @ #1 (…) chooses once among equal values, up to 3",
        ),
        (
            lambda x: x.kthvalue(2, 1)[1],
            ROWS,
            "`regraft.KthValue` @ #1 (…) chooses once among equal values, up to 3",
        ),
        (lambda x: x.kthvalue(4, 1)[1], ROWS, ""),
        (lambda x: (x * 0).argmax(1), ROWS, "`ArgMax` @ #1 (…) chooses 2 times among equal values, up to 6"),
        (lambda x: x.min(1)[1], ROWS, "`ArgMin` @ #1 (…) chooses once among equal values, up to 3"),
        (lambda x: x.argmax(1), ROWS, ""),
        (pooled, PICTURE, "`MaxPool` @ #1 (…) chooses once among equal values, up to 4"),
        (pooled, PICTURE[..., 2:], ""),
    ],
)
def test_what_an_operator_chooses_among(
    function: Callable[[torch.Tensor], object], x: torch.Tensor, said: str, tmp_path: Path
) -> None:
    graph = regraft.load(Function(function).eval(), (x,))
    regraft.save(regraft.rewrite(graph).graph, tmp_path / "net.onnx", to="onnx")
    report = regraft.verify(graph, tmp_path / "net.onnx")
    assert report.passed, report.render()
    notes = [note for note in report.notes if "among equal values" in note]
    assert len(notes) == bool(said)
    if said:
        start, _, end = said.partition("…")
        assert notes[0].startswith(start)
        assert end in notes[0]
        assert any("among equal values" in part for part in report.coverage.unproved())
