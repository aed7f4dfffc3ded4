"""UNet for MindSpore, rewritten from PyTorch `UNet` by regraft.

    net = build()  # with the weights beside this file; build(checkpoint=None) draws new ones

Inputs: x: f32[N,3,32,32]
Captured in evaluation mode.
"""

import math
from pathlib import Path

import mindspore as ms
from mindspore import nn, ops
from mindspore.common.initializer import HeUniform, Uniform


class DoubleConv(nn.Cell):
    """The source's `DoubleConv`: `inc`, `down1.conv` and 5 more."""

    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.conv1 = nn.Conv2d(
            in_channels,
            out_channels,
            3,
            pad_mode="pad",
            padding=1,
            has_bias=False,
            weight_init=HeUniform(math.sqrt(5)),
        )
        self.bn1 = nn.BatchNorm2d(out_channels, eps=1e-05, momentum=0.9)
        self.conv2 = nn.Conv2d(
            out_channels,
            out_channels,
            3,
            pad_mode="pad",
            padding=1,
            has_bias=False,
            weight_init=HeUniform(math.sqrt(5)),
        )
        self.bn2 = nn.BatchNorm2d(out_channels, eps=1e-05, momentum=0.9)
        self.relu = nn.ReLU()

    def construct(self, x):
        x = self.relu(self.bn1(self.conv1(x)))
        return self.relu(self.bn2(self.conv2(x)))


class Down(nn.Cell):
    """The source's `Down`: `down1`, `down2` and 1 more."""

    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.pool = nn.MaxPool2d(2, stride=2, pad_mode="valid")
        self.conv = DoubleConv(in_channels, out_channels)

    def construct(self, x):
        x = self.pool(x)
        return self.conv(x)


class Up(nn.Cell):
    """The source's `Up`: `up1`, `up2` and 1 more."""

    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.up = nn.Upsample(
            scale_factor=2.0,
            recompute_scale_factor=True,
            mode="bilinear",
            align_corners=True,
        )
        self.conv = DoubleConv(in_channels, out_channels)

    def construct(self, x, y):
        x = self.up(x)
        y = ops.cat((y, x), axis=1)
        return self.conv(y)


class UNet(nn.Cell):
    """The source's `UNet`."""

    def __init__(self):
        super().__init__()
        self.inc = DoubleConv(3, 4)
        self.down1 = Down(4, 8)
        self.down2 = Down(8, 16)
        self.down3 = Down(16, 16)
        self.up1 = Up(32, 8)
        self.up2 = Up(16, 4)
        self.up3 = Up(8, 4)
        self.outc = nn.Conv2d(
            4,
            2,
            1,
            pad_mode="valid",
            has_bias=True,
            weight_init=HeUniform(math.sqrt(5)),
            bias_init=Uniform(1 / math.sqrt(4)),
        )

    def construct(self, x):
        x = self.inc(x)
        out = self.down1(x)
        y = self.down2(out)
        z = self.down3(y)
        z = self.up1(z, y)
        z = self.up2(z, out)
        z = self.up3(z, x)
        return self.outc(z)


CHECKPOINT = Path(__file__).with_name("model.ckpt")


def build(checkpoint=CHECKPOINT):
    """Return the net in inference mode, its parameters named by path; None initialises them anew."""
    net = UNet()
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
