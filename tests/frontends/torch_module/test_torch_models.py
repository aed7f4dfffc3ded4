"""Whole models, small, from their own source files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from regraft.frontends.python_file import load_object

EXAMPLES = Path(__file__).parents[3] / "examples"


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("size", [64, 61])
def test_resnet18(check, size):
    torch.manual_seed(0)
    model = load_object(f"{EXAMPLES / 'resnet.py'}:resnet18")
    graph = check(model, floats(2, 3, size, size), atol=1e-3)
    assert len(graph.operators()) == 69
    assert graph.outputs[0][0] == "output"


def test_resnet50_bottleneck(check):
    torch.manual_seed(0)
    module = load_object(
        f"{EXAMPLES / 'resnet.py'}:ResNet", {"block": _bottleneck(), "layers": [1, 1, 1, 1], "num_classes": 7}
    )
    check(module, floats(2, 3, 32, 32), atol=1e-3)


def _bottleneck():
    return load_object(f"{EXAMPLES / 'resnet.py'}:resnet50", {"num_classes": 2}).layer1[0].__class__


def test_transformer_with_a_batch_of_one(check):
    torch.manual_seed(0)
    model = load_object(f"{EXAMPLES / 'transformer.py'}:TransformerClassifier")
    ids = np.random.default_rng(0).integers(0, 100, (1, 16))
    graph = check(model, ids)
    kinds = [o.qualified_name for o in graph.operators()]
    assert kinds.count("regraft.MultiheadAttention") == 2
    assert kinds.count("Dropout") == 6
    assert "Shape" not in kinds


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("batch_first", [False, True])
def test_transformer_encoder(check, norm_first, batch_first):
    layer = nn.TransformerEncoderLayer(16, 4, 24, norm_first=norm_first, batch_first=batch_first)
    check(nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), floats(2, 5, 16))


class PatchTransformer(nn.Module):
    """A small vision transformer: patches, a class token, positions, an encoder."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, 16, 4, 4)
        self.token = nn.Parameter(torch.randn(1, 1, 16))
        self.position = nn.Parameter(torch.randn(1, 5, 16))
        self.encoder = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.head = nn.Linear(16, 3)

    def forward(self, x):
        n = x.shape[0]
        x = self.patch(x)
        x = x.reshape(n, 16, x.shape[2] * x.shape[3]).permute(0, 2, 1)
        x = torch.cat([self.token.expand(n, -1, -1), x], dim=1) + self.position
        return self.head(self.encoder(x)[:, 0])


def test_patch_transformer(check):
    check(PatchTransformer(), floats(2, 3, 8, 8))


class LeNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 6, 5), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(6, 16, 5), nn.Tanh(), nn.AvgPool2d(2)
        )
        self.classifier = nn.Sequential(nn.Linear(16 * 4 * 4, 120), nn.Tanh(), nn.Linear(120, 10))

    def forward(self, x):
        x = self.features(x)
        return self.classifier(x.view(x.size(0), -1))


def test_lenet(check):
    graph = check(LeNet(), floats(2, 1, 28, 28))
    assert "Shape" not in [o.op_type for o in graph.operators()]


class Inverted(nn.Module):
    """A MobileNet v2 block."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(8, 48, 1, bias=False),
            nn.BatchNorm2d(48),
            nn.ReLU6(inplace=True),
            nn.Conv2d(48, 48, 3, 1, 1, groups=48, bias=False),
            nn.BatchNorm2d(48),
            nn.ReLU6(inplace=True),
            nn.Conv2d(48, 8, 1, bias=False),
            nn.BatchNorm2d(8),
        )

    def forward(self, x):
        return nn.functional.adaptive_avg_pool2d(x + self.conv(x), (1, 1)).flatten(1)


def test_mobilenet_block(check):
    check(Inverted(), floats(2, 8, 7, 7))


class Dense(nn.Module):
    """DenseNet: features joined, one by one."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(nn.BatchNorm2d(4 + 3 * i), nn.ReLU(), nn.Conv2d(4 + 3 * i, 3, 3, padding=1))
            for i in range(3)
        )
        self.pool = nn.AvgPool2d(2, 2)

    def forward(self, x):
        features = [x]
        for layer in self.layers:
            features.append(layer(torch.cat(features, 1)))
        return self.pool(torch.cat(features, 1))


def test_densenet_block(check):
    check(Dense(), floats(2, 4, 9, 9))


def test_vgg(check):
    features = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(True), nn.MaxPool2d(2, 2))
    head = nn.Sequential(nn.Linear(8 * 49, 16), nn.ReLU(True), nn.Dropout(), nn.Linear(16, 4))
    check(nn.Sequential(features, nn.AdaptiveAvgPool2d((7, 7)), nn.Flatten(), head), floats(2, 3, 28, 28))
