"""The template of test_model.py beside MindSpore source."""

from __future__ import annotations

from ...source.recorded_tests import TestWords

_HEADER = '''"""{docstring}"""

from pathlib import Path

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

# isort: split
from model import build

with np.load(Path(__file__).with_name("test_model.npz"), allow_pickle=False) as file:
    RECORDED = dict(file)
MODES = {{"pynative": ms.PYNATIVE_MODE, "graph": ms.GRAPH_MODE}}


@pytest.fixture(scope="module", params=list(MODES))
def net(request):
    """Return the net with the weights of its checkpoint."""
    ms.set_context(mode=MODES[request.param])
    return build()


def recorded(prefix):
    """Return the recorded arrays whose names begin with `prefix`, in order."""
    return [array for key, array in RECORDED.items() if key.startswith(prefix)]


{agrees}


'''

WORDS = TestWords(
    "MindSpore",
    _HEADER,
    advice="Run `pytest` in this folder: every test runs in PyNative and in graph mode.",
    tensor="Tensor",
    from_numpy="Tensor",
    to_numpy=".asnumpy()",
    module="cell",
)
