"""MobileNet for MindSpore, rewritten from PyTorch `MobileNet` by regraft.
Captured in evaluation mode.

    net = build()  # with the weights beside this file; build(checkpoint=None) draws new ones

Inputs: x: f32[N,3,32,32]
"""

import math
from pathlib import Path

import mindspore as ms
from mindspore import nn, ops
from mindspore.common.initializer import HeUniform, Uniform


def fan_in_uniform(fan_in):
    """Uniform within 1/sqrt(fan_in): the law that the source draws biases from."""
    return Uniform(1 / math.sqrt(fan_in))


class InvertedResidual(nn.Cell):
    """The source's `InvertedResidual`: `features.1`, `features.3`."""

    def __init__(self, in_channels, out_channels, conv_out_channels):
        super().__init__()
        self.conv = nn.SequentialCell(
            nn.Conv2d(
                in_channels,
                out_channels,
                1,
                pad_mode="valid",
                has_bias=False,
                weight_init=HeUniform(math.sqrt(5)),
            ),
            nn.BatchNorm2d(out_channels, eps=1e-05, momentum=0.9),
            nn.ReLU6(),
            nn.Conv2d(
                out_channels,
                out_channels,
                3,
                stride=2,
                pad_mode="pad",
                padding=1,
                group=out_channels,
                has_bias=False,
                weight_init=HeUniform(math.sqrt(5)),
            ),
            nn.BatchNorm2d(out_channels, eps=1e-05, momentum=0.9),
            nn.ReLU6(),
            nn.Conv2d(
                out_channels,
                conv_out_channels,
                1,
                pad_mode="valid",
                has_bias=False,
                weight_init=HeUniform(math.sqrt(5)),
            ),
            nn.BatchNorm2d(conv_out_channels, eps=1e-05, momentum=0.9),
        )

    def construct(self, x):
        return self.conv(x)


class InvertedResidual2(nn.Cell):
    """The source's `InvertedResidual`: `features.2`, `features.4`."""

    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.conv = nn.SequentialCell(
            nn.Conv2d(
                in_channels,
                out_channels,
                1,
                pad_mode="valid",
                has_bias=False,
                weight_init=HeUniform(math.sqrt(5)),
            ),
            nn.BatchNorm2d(out_channels, eps=1e-05, momentum=0.9),
            nn.ReLU6(),
            nn.Conv2d(
                out_channels,
                out_channels,
                3,
                pad_mode="pad",
                padding=1,
                group=out_channels,
                has_bias=False,
                weight_init=HeUniform(math.sqrt(5)),
            ),
            nn.BatchNorm2d(out_channels, eps=1e-05, momentum=0.9),
            nn.ReLU6(),
            nn.Conv2d(
                out_channels,
                in_channels,
                1,
                pad_mode="valid",
                has_bias=False,
                weight_init=HeUniform(math.sqrt(5)),
            ),
            nn.BatchNorm2d(in_channels, eps=1e-05, momentum=0.9),
        )

    def construct(self, x):
        out = self.conv(x)
        return x + out


class MobileNet(nn.Cell):
    """The source's `MobileNet`."""

    def __init__(self):
        super().__init__()
        self.features = nn.SequentialCell(
            nn.SequentialCell(
                nn.Conv2d(
                    3,
                    8,
                    3,
                    stride=2,
                    pad_mode="pad",
                    padding=1,
                    has_bias=False,
                    weight_init=HeUniform(math.sqrt(5)),
                ),
                nn.BatchNorm2d(8, eps=1e-05, momentum=0.9),
                nn.ReLU6(),
            ),
            InvertedResidual(8, 48, 12),
            InvertedResidual2(12, 72),
            InvertedResidual(12, 72, 16),
            InvertedResidual2(16, 96),
        )
        self.classifier = nn.SequentialCell(
            nn.Dropout(p=0.2),
            nn.Dense(
                16,
                10,
                weight_init=HeUniform(math.sqrt(5)),
                bias_init=fan_in_uniform(16),
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
    """The net in inference mode, every parameter named by its module path.

    Args:
        checkpoint: file to load strictly; None leaves the initial distributions.

    Raises:
        ValueError: when names, shapes or element types of the file and the net differ.
    """
    net = MobileNet()
    for path, parameter in net.parameters_and_names():
        parameter.name = path
    if checkpoint is not None:
        load(net, checkpoint)
    return net.set_train(False)


def load(net, checkpoint):
    """Load a .ckpt or .safetensors file into the net; nothing may be left over on either side."""
    suffix = Path(checkpoint).suffix.removeprefix(".")
    size = Path(checkpoint).stat().st_size
    values = ms.load_checkpoint(str(checkpoint), format=suffix) if size else {}
    parameters = net.parameters_dict()
    problems = [
        f"only in the checkpoint: {name}" for name in values if name not in parameters
    ]
    problems += [
        f"only in the net: {name}" for name in parameters if name not in values
    ]
    for name in parameters.keys() & values.keys():
        expected, found = parameters[name], values[name]
        if (expected.shape, expected.dtype) != (found.shape, found.dtype):
            wanted, given = (
                f"{expected.dtype} {expected.shape}",
                f"{found.dtype} {found.shape}",
            )
            problems.append(f"{name}: expected {wanted}, got {given}")
    if problems:
        raise ValueError(
            f"{checkpoint} does not fit the net:\n" + "\n".join(sorted(problems))
        )
    ms.load_param_into_net(net, values, strict_load=True)
