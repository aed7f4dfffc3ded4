"""Mobilenet for MindSpore, rewritten from MXNet `mobilenet-symbol.json` by regraft.

    net = build()  # with the weights beside this file; build(checkpoint=None) draws new ones

Inputs: data: f32[N,3,32,32]
Parameters from mobilenet-0000.params.
Pass group-modules: 32 layers form a container of 8 `DepthwiseSeparable` (and 9 more).
Pass rename-parameters: `mobilenet0_conv0_weight` is now called `conv0.weight` (and 86
more).
In training, MindSpore moves a running variance towards n / (n - 1) times the variance
of a batch with n numbers per channel; MXNet moves it towards that variance itself.
"""

from pathlib import Path

import mindspore as ms
from mindspore import nn, ops
from mindspore.common.initializer import Uniform


def conv2d(in_channels, out_channels, kernel_size, stride=1, padding=0, group=1):
    """nn.Conv2d without bias, with explicit padding and the source's initializer."""
    return nn.Conv2d(
        in_channels,
        out_channels,
        kernel_size,
        stride=stride,
        padding=padding,
        group=group,
        pad_mode="pad",
        has_bias=False,
        weight_init=Uniform(0.07),
    )


class DepthwiseSeparable(nn.Cell):
    """Grouped by name and structure: `blocks.0`, `blocks.1` and 6 more."""

    def __init__(self, in_channels, out_channels, stride=1):
        super().__init__()
        self.conv1 = conv2d(
            in_channels, in_channels, 3, stride=stride, padding=1, group=in_channels
        )
        self.bn1 = nn.BatchNorm2d(in_channels, eps=1e-05, momentum=0.9)
        self.conv2 = conv2d(in_channels, out_channels, 1)
        self.bn2 = nn.BatchNorm2d(out_channels, eps=1e-05, momentum=0.9)

    def construct(self, x):
        x = ops.relu(self.bn1(self.conv1(x)))
        return ops.relu(self.bn2(self.conv2(x)))


class Mobilenet(nn.Cell):
    """The source's `Mobilenet`."""

    def __init__(self):
        super().__init__()
        self.conv0 = conv2d(3, 4, 3, stride=2, padding=1)
        self.batchnorm0 = nn.BatchNorm2d(4, eps=1e-05, momentum=0.9)
        self.blocks = nn.SequentialCell(
            DepthwiseSeparable(4, 8),
            DepthwiseSeparable(8, 16, stride=2),
            DepthwiseSeparable(16, 16),
            DepthwiseSeparable(16, 32, stride=2),
            *[DepthwiseSeparable(32, 32) for _ in range(4)],
        )
        self.dense0 = nn.Dense(
            32, 10, weight_init=Uniform(0.07), bias_init="zeros", has_bias=True
        )

    def construct(self, data):
        x = ops.relu(self.batchnorm0(self.conv0(data)))
        x = self.blocks(x)
        x = x.mean((2, 3), keep_dims=True)
        x = ops.flatten(x)
        return self.dense0(x)


CHECKPOINT = Path(__file__).with_name("model.ckpt")


def build(checkpoint=CHECKPOINT):
    """Return the net in inference mode, its parameters named by path; None initialises them anew."""
    net = Mobilenet()
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
