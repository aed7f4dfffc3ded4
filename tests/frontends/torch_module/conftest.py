"""What the tests of this folder share: `check`, and weights that are the same in every run."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from regraft.ir import Graph

from .comparison import check as compare


@pytest.fixture(autouse=True)
def _the_same_weights_in_every_run() -> None:
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def check() -> Callable[..., Graph]:
    return compare
