"""Resnet for MindSpore, rewritten from MXNet `resnet-symbol.json` by regraft.

    net = build()  # with the weights beside this file; build(checkpoint=None) draws new ones

Inputs: data: f32[N,3,32,32]
Parameters from resnet-0000.params.
Pass group-modules: 14 layers form a container of 2 `Bottleneck` (and 11 more).
Pass rename-parameters: `resnetv10_conv0_weight` is now called `conv0.weight` (and 123
more).
In training, MindSpore moves a running variance towards n / (n - 1) times the variance
of a batch with n numbers per channel; MXNet moves it towards that variance itself.
"""

from pathlib import Path

import mindspore as ms
from mindspore import nn, ops
from mindspore.common.initializer import Uniform


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
        weight_init=Uniform(0.07),
    )


class Bottleneck(nn.Cell):
    """Grouped by name and structure: `stage1.0`, `stage2` and 4 more."""

    def __init__(self, in_channels, width, stride=1, downsample=False):
        super().__init__()
        out_channels = 4 * width
        self.conv1 = nn.Conv2d(
            in_channels,
            width,
            1,
            stride=stride,
            pad_mode="valid",
            has_bias=True,
            weight_init=Uniform(0.07),
            bias_init="zeros",
        )
        self.bn1 = nn.BatchNorm2d(width, eps=1e-05, momentum=0.9)
        self.conv2 = conv2d(width, width, 3, padding=1)
        self.bn2 = nn.BatchNorm2d(width, eps=1e-05, momentum=0.9)
        self.conv3 = nn.Conv2d(
            width,
            out_channels,
            1,
            pad_mode="valid",
            has_bias=True,
            weight_init=Uniform(0.07),
            bias_init="zeros",
        )
        self.bn3 = nn.BatchNorm2d(out_channels, eps=1e-05, momentum=0.9)
        self.downsample = None
        if downsample:
            self.downsample = nn.SequentialCell(
                conv2d(in_channels, out_channels, 1, stride=stride),
                nn.BatchNorm2d(out_channels, eps=1e-05, momentum=0.9),
            )

    def construct(self, x):
        out = ops.relu(self.bn1(self.conv1(x)))
        out = ops.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        identity = x if self.downsample is None else self.downsample(x)
        return ops.relu(out + identity)


class Resnet(nn.Cell):
    """The source's `Resnet`."""

    def __init__(self):
        super().__init__()
        self.conv0 = conv2d(3, 4, 7, stride=2, padding=3)
        self.batchnorm0 = nn.BatchNorm2d(4, eps=1e-05, momentum=0.9)
        self.stage1 = nn.SequentialCell(
            Bottleneck(4, 4, downsample=True), Bottleneck(16, 4)
        )
        self.stage2 = Bottleneck(16, 8, stride=2, downsample=True)
        self.stage3 = nn.SequentialCell(
            Bottleneck(32, 16, stride=2, downsample=True),
            Bottleneck(64, 16),
            Bottleneck(64, 16),
        )
        self.dense0 = nn.Dense(
            64, 10, weight_init=Uniform(0.07), bias_init="zeros", has_bias=True
        )

    def construct(self, data):
        x = ops.relu(self.batchnorm0(self.conv0(data)))
        x = ops.max_pool2d(x, 3, stride=2, padding=1)
        x = self.stage1(x)
        x = self.stage2(x)
        x = self.stage3(x)
        x = x.mean((2, 3), keep_dims=True)
        x = ops.flatten(x)
        return self.dense0(x)


CHECKPOINT = Path(__file__).with_name("model.ckpt")


def build(checkpoint=CHECKPOINT):
    """Return the net in inference mode, its parameters named by path; None initialises them anew."""
    net = Resnet()
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
