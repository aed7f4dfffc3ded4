"""Activations, softmax, dropout."""

from __future__ import annotations

import numpy as np
import pytest
from torch import nn


def floats(*shape: int) -> np.ndarray:
    return 3 * np.random.default_rng(0).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(
    "module",
    [
        nn.ReLU(inplace=True),
        nn.ReLU6(),
        nn.LeakyReLU(0.2, inplace=True),
        nn.ELU(0.7),
        nn.SELU(),
        nn.CELU(1.3),
        nn.GELU(),
        nn.GELU("tanh"),
        nn.SiLU(inplace=True),
        nn.Mish(),
        nn.Sigmoid(),
        nn.Tanh(),
        nn.Hardswish(),
        nn.Hardsigmoid(),
        nn.Hardtanh(-0.5, 2.0),
        nn.Softplus(),
        nn.Softplus(beta=2.0),
        nn.LogSigmoid(),
        nn.Softsign(),
        nn.Tanhshrink(),
        nn.Hardshrink(0.3),
        nn.Softshrink(0.3),
        nn.Threshold(0.1, 20.0),
        nn.PReLU(),
        nn.PReLU(6),
        nn.GLU(1),
        nn.Softmax(1),
        nn.Softmax(-1),
        nn.LogSoftmax(2),
        nn.Softmin(1),
        nn.Softmax2d(),
    ],
    ids=str,
)
def test_activation(check, module):
    check(module, floats(2, 6, 5, 4))


def test_celu_of_other_floats(check):
    """ONNX has it for float32 only."""
    check(lambda x: nn.functional.celu(x.double(), 1.3), floats(2, 6))


def test_dropout_keeps_its_ratio_and_no_mode(check):
    graph = check(
        nn.Sequential(nn.Dropout(0.3), nn.Dropout2d(0.4), nn.Dropout(0.2, inplace=True)), floats(2, 3, 4, 4)
    )
    (channels,) = [o for o in graph.operators() if o.op_type == "FeatureDropout"]
    assert channels.float("ratio") == pytest.approx(0.4)
    kept = [o for o in graph.operators() if o.op_type == "Dropout"]
    ratios = [float(graph.constant_value(graph.operands(o.key)[1])) for o in kept]
    assert ratios == pytest.approx([0.3, 0.2])
