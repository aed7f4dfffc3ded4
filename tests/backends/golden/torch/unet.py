"""UNet for PyTorch, rewritten from PyTorch `examples/unet.py:UNet` by regraft.

    net = build()  # with the weights beside this file; build(checkpoint=None) draws new ones

Inputs: x: f32[N,3,32,32]
Captured in evaluation mode.
"""

from pathlib import Path

import torch
from safetensors.torch import load_model
from torch import nn


class DoubleConv(nn.Module):
    """The source's `DoubleConv`: `inc`, `down1.conv` and 5 more."""

    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, out_channels, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(out_channels)
        self.conv2 = nn.Conv2d(out_channels, out_channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(out_channels)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        x = self.relu(self.bn1(self.conv1(x)))
        return self.relu(self.bn2(self.conv2(x)))


class Down(nn.Module):
    """The source's `Down`: `down1`, `down2` and 1 more."""

    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.pool = nn.MaxPool2d(2)
        self.conv = DoubleConv(in_channels, out_channels)

    def forward(self, x):
        x = self.pool(x)
        return self.conv(x)


class Up(nn.Module):
    """The source's `Up`: `up1`, `up2` and 1 more."""

    def __init__(self, channels, in_channels, out_channels):
        super().__init__()
        self.up = nn.Upsample(
            size=(channels, channels), mode="bilinear", align_corners=True
        )
        self.conv = DoubleConv(in_channels, out_channels)

    def forward(self, x, y):
        x = self.up(x)
        y = torch.cat((y, x), dim=1)
        return self.conv(y)


class UNet(nn.Module):
    """The source's `UNet`."""

    def __init__(self):
        super().__init__()
        self.inc = DoubleConv(3, 64)
        self.down1 = Down(64, 128)
        self.down2 = Down(128, 256)
        self.down3 = Down(256, 256)
        self.up1 = Up(8, 512, 128)
        self.up2 = Up(16, 256, 64)
        self.up3 = Up(32, 128, 64)
        self.outc = nn.Conv2d(64, 2, 1)

    def forward(self, x):
        x = self.inc(x)
        out = self.down1(x)
        y = self.down2(out)
        z = self.down3(y)
        z = self.up1(z, y)
        z = self.up2(z, out)
        z = self.up3(z, x)
        return self.outc(z)


CHECKPOINT = Path(__file__).with_name("model.safetensors")


def build(checkpoint=CHECKPOINT, device=None, dtype=None):
    """Return the net in evaluation mode, with a checkpoint's weights; None initialises new ones."""
    net = UNet()
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
