"""ReusedLayer for PyTorch, rewritten from PyTorch `examples/reused_layer.py:ReusedLayer` by regraft.

    net = build()  # with the weights beside this file; build(checkpoint=None) draws new ones

Inputs: x: f32[N,3,64,64]
Captured in evaluation mode.
Pass deduplicate-modules: one `Conv2d` is registered as `base.conv1`, `layer0.0`; kept
as `layer0.0` (and 2 more).
Pass drop-unused-modules: `ResNet` is registered and never called: 11,679,976 parameters
in 59 tensors and 57 buffers.
Pass rename-parameters: `base.conv1.weight` is now called `layer0.0.weight` (and 1
more).
"""

from pathlib import Path

import torch
from safetensors.torch import load_model
from torch import nn


def conv2d(in_channels, out_channels, kernel_size, stride=1, padding=0):
    """nn.Conv2d without bias, with the source's initializer."""
    layer = nn.Conv2d(
        in_channels,
        out_channels,
        kernel_size,
        stride=stride,
        padding=padding,
        bias=False,
    )
    nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
    return layer


class ReusedLayer(nn.Module):
    """The source's `ReusedLayer`."""

    def __init__(self):
        super().__init__()
        self.layer0 = nn.Sequential(
            conv2d(3, 64, 7, stride=2, padding=3),
            nn.BatchNorm2d(64),
            nn.ReLU(inplace=True),
        )

    def forward(self, x):
        return self.layer0(x)


CHECKPOINT = Path(__file__).with_name("model.safetensors")


def build(checkpoint=CHECKPOINT, device=None, dtype=None):
    """Return the net in evaluation mode, with a checkpoint's weights; None initialises new ones."""
    net = ReusedLayer()
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
