"""Densenet for MindSpore, rewritten from MXNet `densenet-symbol.json` by regraft.

    net = build()  # with the weights beside this file; build(checkpoint=None) draws new ones

Inputs: data: f32[N,3,32,32]
Parameters from densenet-0000.params.
Pass group-modules: 12 layers form a container of 3 `DenseLayer` (and 12 more).
Pass rename-parameters: `densenet0_conv0_weight` is now called `conv0.weight` (and 110
more).
In training, MindSpore moves a running variance towards n / (n - 1) times the variance
of a batch with n numbers per channel; MXNet moves it towards that variance itself.
"""

from pathlib import Path

import mindspore as ms
from mindspore import nn, ops
from mindspore.common.initializer import Uniform


def conv2d(in_channels, out_channels, kernel_size, padding=0):
    """nn.Conv2d without bias, with explicit padding and the source's initializer."""
    return nn.Conv2d(
        in_channels,
        out_channels,
        kernel_size,
        padding=padding,
        pad_mode="pad",
        has_bias=False,
        weight_init=Uniform(0.07),
    )


class DenseLayer(nn.Cell):
    """Grouped by name and structure: `stage1.0`, `stage1.1` and 7 more."""

    def __init__(self, num_features):
        super().__init__()
        self.bn1 = nn.BatchNorm2d(num_features, eps=1e-05, momentum=0.9)
        self.conv1 = conv2d(num_features, 8, 1)
        self.bn2 = nn.BatchNorm2d(8, eps=1e-05, momentum=0.9)
        self.conv2 = conv2d(8, 4, 3, padding=1)

    def construct(self, x):
        out = ops.relu(self.bn1(x))
        out = ops.relu(self.bn2(self.conv1(out)))
        out = self.conv2(out)
        return ops.cat((x, out), axis=1)


class Densenet(nn.Cell):
    """The source's `Densenet`."""

    def __init__(self):
        super().__init__()
        self.conv0 = conv2d(3, 8, 3, padding=1)
        self.batchnorm0 = nn.BatchNorm2d(8, eps=1e-05, momentum=0.9)
        self.stage1 = nn.SequentialCell(*[DenseLayer(8 + 4 * i) for i in range(3)])
        self.batchnorm1 = nn.BatchNorm2d(20, eps=1e-05, momentum=0.9)
        self.conv1 = conv2d(20, 10, 1)
        self.stage2 = nn.SequentialCell(*[DenseLayer(10 + 4 * i) for i in range(4)])
        self.batchnorm2 = nn.BatchNorm2d(26, eps=1e-05, momentum=0.9)
        self.conv2 = conv2d(26, 13, 1)
        self.stage3 = nn.SequentialCell(DenseLayer(13), DenseLayer(17))
        self.batchnorm3 = nn.BatchNorm2d(21, eps=1e-05, momentum=0.9)
        self.dense0 = nn.Dense(
            21, 10, weight_init=Uniform(0.07), bias_init="zeros", has_bias=True
        )

    def construct(self, data):
        x = ops.relu(self.batchnorm0(self.conv0(data)))
        x = ops.max_pool2d(x, 2, stride=2)
        x = ops.relu(self.batchnorm1(self.stage1(x)))
        x = self.conv1(x)
        x = ops.avg_pool2d(x, 2, stride=2)
        x = ops.relu(self.batchnorm2(self.stage2(x)))
        x = self.conv2(x)
        x = ops.avg_pool2d(x, 2, stride=2)
        x = ops.relu(self.batchnorm3(self.stage3(x))).mean((2, 3), keep_dims=True)
        x = ops.flatten(x)
        return self.dense0(x)


CHECKPOINT = Path(__file__).with_name("model.ckpt")


def build(checkpoint=CHECKPOINT):
    """Return the net in inference mode, its parameters named by path; None initialises them anew."""
    net = Densenet()
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
