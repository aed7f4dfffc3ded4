"""Inception for MindSpore, rewritten from MXNet `inception-symbol.json` by regraft.

    net = build()  # with the weights beside this file; build(checkpoint=None) draws new ones

Inputs: data: f32[N,3,32,32]
Parameters from inception-0000.params.
Pass group-modules: 2 layers form one `ConvBNReLU` (and 26 more).
Pass rename-parameters: `inception30_conv0_weight` is now called `conv0.conv.weight`
(and 111 more).
In training, MindSpore moves a running variance towards n / (n - 1) times the variance
of a batch with n numbers per channel; MXNet moves it towards that variance itself.
"""

from pathlib import Path

import mindspore as ms
from mindspore import nn, ops
from mindspore.common.initializer import Uniform


class ConvBNReLU(nn.Cell):
    """Grouped by name and structure: `conv0`, `blocks.0.conv0` and 20 more."""

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0):
        super().__init__()
        self.conv = nn.Conv2d(
            in_channels,
            out_channels,
            kernel_size,
            stride=stride,
            pad_mode="pad",
            padding=padding,
            has_bias=False,
            weight_init=Uniform(0.07),
        )
        self.bn = nn.BatchNorm2d(out_channels, eps=1e-05, momentum=0.9)

    def construct(self, x):
        return ops.relu(self.bn(self.conv(x)))


class InceptionBlock(nn.Cell):
    """Grouped by name and structure: `blocks.0`, `blocks.1` and 1 more."""

    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.conv0 = ConvBNReLU(in_channels, 8, 1)
        self.conv1 = ConvBNReLU(in_channels, 4, 1)
        self.conv2 = ConvBNReLU(4, 8, 5, padding=2)
        self.conv3 = ConvBNReLU(in_channels, 4, 1)
        self.conv4 = ConvBNReLU(4, 6, 3, padding=1)
        self.conv5 = ConvBNReLU(6, 6, 3, padding=1)
        self.conv6 = ConvBNReLU(in_channels, out_channels, 1)

    def construct(self, x):
        out = self.conv0(x)
        y = self.conv1(x)
        y = self.conv2(y)
        z = self.conv3(x)
        z = self.conv4(z)
        z = self.conv5(z)
        x = ops.avg_pool2d(x, 3, stride=1, padding=1)
        x = self.conv6(x)
        return ops.cat((out, y, z, x), axis=1)


class Inception(nn.Cell):
    """The source's `Inception`."""

    def __init__(self):
        super().__init__()
        self.conv0 = ConvBNReLU(3, 8, 3, stride=2)
        self.blocks = nn.SequentialCell(
            InceptionBlock(8, 4), InceptionBlock(26, 8), InceptionBlock(30, 12)
        )
        self.dense0 = nn.Dense(
            34, 10, weight_init=Uniform(0.07), bias_init="zeros", has_bias=True
        )

    def construct(self, data):
        x = self.conv0(data)
        x = ops.max_pool2d(x, 2, stride=2)
        x = self.blocks(x)
        x = x.mean((2, 3), keep_dims=True)
        x = ops.flatten(x)
        return self.dense0(x)


CHECKPOINT = Path(__file__).with_name("model.ckpt")


def build(checkpoint=CHECKPOINT):
    """Return the net in inference mode, its parameters named by path; None initialises them anew."""
    net = Inception()
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
