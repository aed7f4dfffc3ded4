"""Archives that older versions of torch wrote compute what torch's upgraders make of them."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import regraft
from regraft.ir import RegraftError

from .comparison import session_of
from .hostile_archives import write

pytestmark = pytest.mark.filterwarnings("ignore")  # torch deprecates writing such archives; people have them

X = torch.tensor([[7, -7, 9], [-9, 5, 1]])


class Divides(nn.Module):
    """Quotients of whole numbers were whole before version 4."""

    def forward(self, x):
        y = x.clone()
        y.div_(3)
        floats = x.float()
        rounded = torch.div(x, 2, rounding_mode="floor")
        return torch.div(x, 2), torch.div(x, torch.full_like(x, 4)), y, x / 2.0, floats / x, rounded


class Truly(nn.Module):
    """The same without what today's torch refuses in version 10."""

    def forward(self, x):
        return torch.div(x, 2), torch.div(x, x + 20), x / 2.0


class Fills(nn.Module):
    """Fills that are whole made floats before version 5."""

    def forward(self, x):
        return (
            torch.full([2, 3], 7) + x,
            torch.full([2, 3], 7, dtype=torch.int64) + x,
            torch.full([3], 1.5) + x,
        )


def archive(path: Path, net: nn.Module, version: bytes) -> Path:
    """A net as a version of the format has it."""
    torch.jit.save(torch.jit.script(net), path)
    with zipfile.ZipFile(path) as file:
        members = {name.partition("/")[2]: file.read(name) for name in file.namelist()}
    return write(path, {**members, "version": version})


@pytest.mark.parametrize(
    ("net", "version"),
    [(Divides(), b"3"), (Truly(), b"4"), (Truly(), b"10"), (Fills(), b"4"), (Fills(), b"5")],
)
def test_is_what_torch_upgrades_it_to(tmp_path: Path, net: nn.Module, version: bytes) -> None:
    path = archive(tmp_path / "net.pt", net, version)
    wanted = torch.jit.load(path)(X)
    session = session_of(regraft.load(path, (X,), dynamic_batch=False))
    found = session.run(None, {session.get_inputs()[0].name: X.numpy()})
    for mine, theirs in zip(found, wanted, strict=True):
        assert mine.dtype == theirs.numpy().dtype
        np.testing.assert_allclose(mine, theirs.numpy(), rtol=1e-6)


def test_a_version_that_is_no_number_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RegraftError, match="version of the format as a number"):
        regraft.load(archive(tmp_path / "net.pt", Truly(), b"ten"), (X,))
