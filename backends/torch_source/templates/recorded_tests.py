"""The template of test_model.py beside PyTorch source."""

from __future__ import annotations

from ...source.recorded_tests import TestWords

_HEADER = '''"""{docstring}"""

from pathlib import Path

import numpy as np
import pytest
import torch

# isort: split
from model import build

with np.load(Path(__file__).with_name("test_model.npz"), allow_pickle=False) as file:
    RECORDED = dict(file)


@pytest.fixture(scope="module")
def net():
    """Return the net with the weights of its checkpoint."""
    with torch.no_grad():
        yield build()


def recorded(prefix):
    """Return the recorded arrays whose names begin with `prefix`, in order."""
    return [array for key, array in RECORDED.items() if key.startswith(prefix)]


{agrees}


'''

WORDS = TestWords(
    "PyTorch",
    _HEADER,
    advice="Run `pytest` in this folder.",
    tensor="torch.Tensor",
    from_numpy="torch.from_numpy",
    to_numpy=".detach().numpy()",
    module="module",
)
