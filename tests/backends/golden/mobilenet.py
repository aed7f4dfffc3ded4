"""MobileNet for MindSpore, rewritten from PyTorch `MobileNet` by regraft.

    net = build()  # with the weights beside this file; build(checkpoint=None) draws new ones

Inputs: x: f32[N,3,32,32]
Captured in evaluation mode.
"""

import math
from pathlib import Path

import mindspore as ms
from mindspore import nn, ops
from mindspore.common.initializer import HeUniform, Uniform


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
        weight_init=HeUniform(math.sqrt(5)),
    )


class InvertedResidual(nn.Cell):
    """The source's `InvertedResidual`: `features.2`, `features.4` and 2 more."""

    def __init__(self, in_channels, out_channels, stride=1, shortcut=False):
        super().__init__()
        hidden_channels = 6 * in_channels
        self.shortcut = shortcut
        self.conv = nn.SequentialCell(
            conv2d(in_channels, hidden_channels, 1),
            nn.BatchNorm2d(hidden_channels, eps=1e-05, momentum=0.9),
            nn.ReLU6(),
            conv2d(
                hidden_channels,
                hidden_channels,
                3,
                stride=stride,
                padding=1,
                group=hidden_channels,
            ),
            nn.BatchNorm2d(hidden_channels, eps=1e-05, momentum=0.9),
            nn.ReLU6(),
            conv2d(hidden_channels, out_channels, 1),
            nn.BatchNorm2d(out_channels, eps=1e-05, momentum=0.9),
        )

    def construct(self, x):
        out = self.conv(x)
        return x + out if self.shortcut else out


class MobileNet(nn.Cell):
    """The source's `MobileNet`."""

    def __init__(self):
        super().__init__()
        self.features = nn.SequentialCell(
            nn.SequentialCell(
                conv2d(3, 8, 3, stride=2, padding=1),
                nn.BatchNorm2d(8, eps=1e-05, momentum=0.9),
                nn.ReLU6(),
            ),
            InvertedResidual(8, 12, stride=2),
            InvertedResidual(12, 12, shortcut=True),
            InvertedResidual(12, 16, stride=2),
            InvertedResidual(16, 16, shortcut=True),
        )
        self.classifier = nn.SequentialCell(
            nn.Dropout(p=0.2),
            nn.Dense(
                16,
                10,
                weight_init=HeUniform(math.sqrt(5)),
                bias_init=Uniform(1 / math.sqrt(16)),
                has_bias=True,
            ),
        )

    def construct(self, x):
        x = self.features(x)
        x = ops.adaptive_avg_pool2d(x, 1)
        x = ops.flatten(x)
        return self.classifier(x)


CHECKPOINT = Path(__file__).with_name("model.ckpt")


def build(checkpoint=CHECKPOINT):
    """Return the net in inference mode, its parameters named by path; None initialises them anew."""
    net = MobileNet()
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
