"""MobileNetV2 for PyTorch, rewritten from PyTorch `examples/mobilenet_v2.py:MobileNetV2` by regraft.

    net = build()  # with the weights beside this file; build(checkpoint=None) draws new ones

Inputs: x: f32[N,3,64,64]
Captured in evaluation mode.
"""

from pathlib import Path

import torch
from safetensors.torch import load_model
from torch import nn


class ConvBNReLU(nn.Sequential):
    """The source's `ConvBNReLU`: `features.0`, `features.1.conv.0` and 33 more."""

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, groups=1):
        super().__init__(
            nn.Conv2d(
                in_channels,
                out_channels,
                kernel_size,
                stride=stride,
                padding=kernel_size // 2,
                groups=groups,
                bias=False,
            ),
            nn.BatchNorm2d(out_channels),
            nn.ReLU6(inplace=True),
        )


class InvertedResidual(nn.Module):
    """The source's `InvertedResidual`: `features.3`, `features.5` and 15 more."""

    def __init__(
        self, in_channels, out_channels, stride=1, shortcut=False, expand_ratio=6
    ):
        super().__init__()
        hidden_channels = expand_ratio * in_channels
        self.shortcut = shortcut
        layers = []
        if expand_ratio != 1:
            layers.append(ConvBNReLU(in_channels, hidden_channels, 1))
        layers += [
            ConvBNReLU(
                hidden_channels,
                hidden_channels,
                3,
                stride=stride,
                groups=hidden_channels,
            ),
            nn.Conv2d(hidden_channels, out_channels, 1, bias=False),
            nn.BatchNorm2d(out_channels),
        ]
        self.conv = nn.Sequential(*layers)

    def forward(self, x):
        out = self.conv(x)
        return x + out if self.shortcut else out


class MobileNetV2(nn.Module):
    """The source's `MobileNetV2`."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            ConvBNReLU(3, 32, 3, stride=2),
            InvertedResidual(32, 16, expand_ratio=1),
            *[
                InvertedResidual(
                    in_channels, out_channels, stride=stride, shortcut=shortcut
                )
                for in_channels, out_channels, stride, shortcut in (
                    (16, 24, 2, False),
                    (24, 24, 1, True),
                    (24, 32, 2, False),
                    (32, 32, 1, True),
                    (32, 32, 1, True),
                    (32, 64, 2, False),
                    (64, 64, 1, True),
                    (64, 64, 1, True),
                    (64, 64, 1, True),
                    (64, 96, 1, False),
                    (96, 96, 1, True),
                    (96, 96, 1, True),
                    (96, 160, 2, False),
                    (160, 160, 1, True),
                    (160, 160, 1, True),
                    (160, 320, 1, False),
                )
            ],
            ConvBNReLU(320, 1280, 1),
        )
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(1280, 1000))

    def forward(self, x):
        x = self.features(x)
        x = x.mean((2, 3))
        return self.classifier(x)


CHECKPOINT = Path(__file__).with_name("model.safetensors")


def build(checkpoint=CHECKPOINT, device=None, dtype=None):
    """Return the net in evaluation mode, with a checkpoint's weights; None initialises new ones."""
    net = MobileNetV2()
    if checkpoint is not None:
        load(net, checkpoint)
    return net.to(device=device, dtype=dtype).eval()


def load(net, checkpoint):
    """Load a .safetensors or .pth file; raise an error unless it fits the net."""
    path = Path(checkpoint)
    if path.suffix == ".safetensors":
        load_model(net, path)
    else:
        net.load_state_dict(torch.load(path, weights_only=True))
