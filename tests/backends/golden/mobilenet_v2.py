"""MobileNetV2 for MindSpore, rewritten from PyTorch `MobileNetV2` by regraft.

    net = build()  # with the weights beside this file; build(checkpoint=None) draws new ones

Inputs: x: f32[N,3,64,64]
Captured in evaluation mode.
"""

import math
from pathlib import Path

import mindspore as ms
from mindspore import nn
from mindspore.common.initializer import HeUniform, Normal, Uniform


def batch_norm2d(num_features):
    """nn.BatchNorm2d with the source's initializer."""
    return nn.BatchNorm2d(
        num_features, eps=1e-05, momentum=0.9, moving_mean_init=Normal(1.0)
    )


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


class ConvBNReLU(nn.SequentialCell):
    """The source's `ConvBNReLU`: `features.0`, `features.1.conv.0` and 25 more."""

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, group=1):
        super().__init__(
            conv2d(
                in_channels,
                out_channels,
                kernel_size,
                stride=stride,
                padding=kernel_size // 2,
                group=group,
            ),
            batch_norm2d(out_channels),
            nn.ReLU6(),
        )


class InvertedResidual(nn.Cell):
    """The source's `InvertedResidual`: `features.3`, `features.5` and 11 more."""

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
                group=hidden_channels,
            ),
            conv2d(hidden_channels, out_channels, 1),
            batch_norm2d(out_channels),
        ]
        self.conv = nn.SequentialCell(*layers)

    def construct(self, x):
        out = self.conv(x)
        return x + out if self.shortcut else out


class MobileNetV2(nn.Cell):
    """The source's `MobileNetV2`."""

    def __init__(self):
        super().__init__()
        self.features = nn.SequentialCell(
            ConvBNReLU(3, 32, 3, stride=2),
            InvertedResidual(32, 16, expand_ratio=1),
            InvertedResidual(16, 24, stride=2),
            InvertedResidual(24, 24, shortcut=True),
            InvertedResidual(24, 32, stride=2),
            InvertedResidual(32, 32, shortcut=True),
            InvertedResidual(32, 32, shortcut=True),
            InvertedResidual(32, 64, stride=2),
            *[InvertedResidual(64, 64, shortcut=True) for _ in range(3)],
            InvertedResidual(64, 96),
            InvertedResidual(96, 96, shortcut=True),
            InvertedResidual(96, 96, shortcut=True),
            ConvBNReLU(96, 1280, 1),
        )
        self.classifier = nn.SequentialCell(
            nn.Dropout(p=0.2),
            nn.Dense(
                1280,
                10,
                weight_init=HeUniform(math.sqrt(5)),
                bias_init=Uniform(1 / math.sqrt(1280)),
                has_bias=True,
            ),
        )

    def construct(self, x):
        x = self.features(x)
        x = x.mean((2, 3))
        return self.classifier(x)


CHECKPOINT = Path(__file__).with_name("model.ckpt")


def build(checkpoint=CHECKPOINT):
    """Return the net in inference mode, its parameters named by path; None initialises them anew."""
    net = MobileNetV2()
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
