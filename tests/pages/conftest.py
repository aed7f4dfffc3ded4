"""Two small nets that differ in one epsilon, compared once, and their page."""

from pathlib import Path

import pytest
import torch
from torch import nn

import regraft
from regraft.api.pages import write_page


class Block(nn.Module):
    def __init__(self, eps: float = 1e-5) -> None:
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4, eps=eps)

    def forward(self, x):
        return torch.relu(self.norm(self.conv(x))) + x


class Net(nn.Module):
    def __init__(self, eps: float = 1e-5) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 1)
        self.blocks = nn.Sequential(Block(), Block(), Block(eps), Block())
        self.head = nn.Linear(4, 5)
        self.spare = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))

    def forward(self, x):
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))


@pytest.fixture(scope="session")
def compared(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """Source, target, the report, and its page in both languages."""
    torch.manual_seed(0)
    nets = [Net().eval(), Net(0.5).eval()]
    source, target = (regraft.load(net, ["2x3x6x6"]) for net in nets)
    folder = tmp_path_factory.mktemp("pages")
    page = folder / "report.html"
    report = regraft.verify(source, nets[1], train=True, html=page)
    chinese = write_page(folder / "zh.html", source, target, report, lang="zh")
    return {"source": source, "target": target, "report": report, "en": page, "zh": chinese}


@pytest.fixture
def page(compared: dict[str, object]) -> Path:
    return compared["en"]
