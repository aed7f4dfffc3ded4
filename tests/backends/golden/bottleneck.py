"""Narrow for MindSpore, rewritten from PyTorch `Narrow` by regraft.

    net = build()  # with the weights beside this file; build(checkpoint=None) draws new ones

Inputs: x: f32[N,3,32,32]
Captured in evaluation mode.
"""

import math
from pathlib import Path

import mindspore as ms
from mindspore import nn
from mindspore.common.initializer import HeUniform


def conv2d(in_channels, out_channels, kernel_size, stride=1, padding=0):
    """nn.Conv2d without bias, with explicit padding and the source's initializer."""
    return nn.Conv2d(
        in_channels,
        out_channels,
        kernel_size,
        stride=stride,
        padding=padding,
        pad_mode="pad",
        has_bias=False,
        weight_init=HeUniform(math.sqrt(5)),
    )


class Bottleneck(nn.Cell):
    """The source's `Bottleneck`: `blocks.0`, `blocks.2` and 2 more."""

    def __init__(self, in_channels, width, stride=1, downsample=False):
        super().__init__()
        out_channels = 4 * width
        self.conv1 = conv2d(in_channels, width, 1)
        self.bn1 = nn.BatchNorm2d(width, eps=1e-05, momentum=0.9)
        self.conv2 = conv2d(width, width, 3, stride=stride, padding=1)
        self.bn2 = nn.BatchNorm2d(width, eps=1e-05, momentum=0.9)
        self.conv3 = conv2d(width, out_channels, 1)
        self.bn3 = nn.BatchNorm2d(out_channels, eps=1e-05, momentum=0.9)
        self.relu = nn.ReLU()
        self.downsample = None
        if downsample:
            self.downsample = nn.SequentialCell(
                conv2d(in_channels, out_channels, 1, stride=stride),
                nn.BatchNorm2d(out_channels, eps=1e-05, momentum=0.9),
            )

    def construct(self, x):
        identity = x if self.downsample is None else self.downsample(x)
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.relu(self.bn2(self.conv2(x)))
        return self.relu(self.bn3(self.conv3(x)) + identity)


class Narrow(nn.Cell):
    """The source's `Narrow`."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.SequentialCell(
            Bottleneck(3, 4, stride=2, downsample=True),
            Bottleneck(16, 4),
            Bottleneck(16, 5, stride=2, downsample=True),
            Bottleneck(20, 6, stride=2, downsample=True),
        )

    def construct(self, x):
        return self.blocks(x)


CHECKPOINT = Path(__file__).with_name("model.ckpt")


def build(checkpoint=CHECKPOINT):
    """Return the net in inference mode, its parameters named by path; None initialises them anew."""
    net = Narrow()
    for path, parameter in net.parameters_and_names():
        parameter.name = path
    if checkpoint is not None:
        load(net, checkpoint)
    return net.set_train(False)


def load(net, checkpoint):
    """Load a .ckpt or .safetensors file; raise ValueError unless it fits the net."""
    path = Path(checkpoint)
    values = ms.load_checkpoint(str(path), format=path.suffix[1:])
    wanted = {f"{n} {p.dtype}{p.shape}" for n, p in net.parameters_dict().items()}
    found = {f"{n} {v.dtype}{v.shape}" for n, v in values.items()}
    problems = [f"only in the net: {each}" for each in sorted(wanted - found)]
    problems += [f"only in the checkpoint: {each}" for each in sorted(found - wanted)]
    if problems:
        raise ValueError(f"{path} does not fit the net:\n" + "\n".join(problems))
    ms.load_param_into_net(net, values, strict_load=True)
