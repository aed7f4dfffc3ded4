"""ResNet for MindSpore, rewritten from PyTorch `ResNet` by regraft.

    net = build()  # with the weights beside this file; build(checkpoint=None) draws new ones

Inputs: x: f32[N,3,32,32]
Captured in evaluation mode.
"""

import math
from pathlib import Path

import mindspore as ms
from mindspore import nn, ops
from mindspore.common.initializer import HeNormal, HeUniform, Uniform


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
        weight_init=HeNormal(mode="fan_out", nonlinearity="relu"),
    )


class BasicBlock(nn.Cell):
    """The source's `BasicBlock`: `layer2.0`, `layer3.0` and 6 more."""

    def __init__(self, in_channels, out_channels, stride=1, downsample=False):
        super().__init__()
        self.conv1 = conv2d(in_channels, out_channels, 3, stride=stride, padding=1)
        self.bn1 = nn.BatchNorm2d(out_channels, eps=1e-05, momentum=0.9)
        self.relu = nn.ReLU()
        self.conv2 = conv2d(out_channels, out_channels, 3, padding=1)
        self.bn2 = nn.BatchNorm2d(out_channels, eps=1e-05, momentum=0.9)
        self.downsample = None
        if downsample:
            self.downsample = nn.SequentialCell(
                conv2d(in_channels, out_channels, 1, stride=stride),
                nn.BatchNorm2d(out_channels, eps=1e-05, momentum=0.9),
            )

    def construct(self, x):
        identity = x if self.downsample is None else self.downsample(x)
        x = self.relu(self.bn1(self.conv1(x)))
        return self.relu(self.bn2(self.conv2(x)) + identity)


class ResNet(nn.Cell):
    """The source's `ResNet`."""

    def __init__(self):
        super().__init__()
        self.conv1 = conv2d(3, 64, 7, stride=2, padding=3)
        self.bn1 = nn.BatchNorm2d(64, eps=1e-05, momentum=0.9)
        self.relu = nn.ReLU()
        self.maxpool = nn.MaxPool2d(3, stride=2, pad_mode="pad", padding=1)
        self.layer1 = nn.SequentialCell(BasicBlock(64, 64), BasicBlock(64, 64))
        self.layer2 = nn.SequentialCell(
            BasicBlock(64, 128, stride=2, downsample=True), BasicBlock(128, 128)
        )
        self.layer3 = nn.SequentialCell(
            BasicBlock(128, 256, stride=2, downsample=True), BasicBlock(256, 256)
        )
        self.layer4 = nn.SequentialCell(
            BasicBlock(256, 512, stride=2, downsample=True), BasicBlock(512, 512)
        )
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Dense(
            512,
            1000,
            weight_init=HeUniform(math.sqrt(5)),
            bias_init=Uniform(1 / math.sqrt(512)),
            has_bias=True,
        )

    def construct(self, x):
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.maxpool(x)
        x = self.layer1(x)
        x = self.layer2(x)
        x = self.layer3(x)
        x = self.layer4(x)
        x = self.avgpool(x)
        x = ops.flatten(x)
        return self.fc(x)


CHECKPOINT = Path(__file__).with_name("model.ckpt")


def build(checkpoint=CHECKPOINT):
    """Return the net in inference mode, its parameters named by path; None initialises them anew."""
    net = ResNet()
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
