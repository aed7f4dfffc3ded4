"""The port of cifar_resnet_torch.py to MindSpore, written by hand: it computes the same, and trains worse.

Its convolutions start from `weight_init="Uniform"`, which is ±0.07 whatever their size.
"""

from __future__ import annotations

from mindspore import nn, ops


def conv(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Conv2d:
    """A convolution that keeps the size at stride 1."""
    padding = kernel // 2
    return nn.Conv2d(
        inputs,
        outputs,
        kernel,
        stride,
        pad_mode="pad",
        padding=padding,
        weight_init="Uniform",
        has_bias=False,
    )


class Stem(nn.Cell):
    """The first convolution."""

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.conv = conv(3, outputs, 3)
        self.norm = nn.BatchNorm2d(outputs)

    def construct(self, x):
        return ops.relu(self.norm(self.conv(x)))


class ResidualBlock(nn.Cell):
    """Three convolutions beside a shortcut."""

    def __init__(self, inputs: int, width: int, stride: int = 1) -> None:
        super().__init__()
        outputs = width * 4
        self.shortcut = None
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.SequentialCell(conv(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))
        self.conv1 = conv(inputs, width, 1)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = conv(width, width, 3, stride)
        self.norm2 = nn.BatchNorm2d(width)
        self.conv3 = conv(width, outputs, 1)
        self.norm3 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU()

    def construct(self, x):
        identity = x
        if self.shortcut is not None:
            identity = self.shortcut(x)
        out = self.relu(self.norm1(self.conv1(x)))
        out = self.relu(self.norm2(self.conv2(out)))
        out = self.norm3(self.conv3(out))
        return self.relu(out + identity)


class ResNet(nn.Cell):
    """(N, 3, 32, 32) images to (N, classes) scores."""

    def __init__(self, layers: tuple[int, ...], width: int = 64, classes: int = 10) -> None:
        super().__init__()
        self.conv_block1 = Stem(width)
        inputs = width
        for number, blocks in enumerate(layers, 1):
            group = nn.SequentialCell()
            for block in range(blocks):
                stride = 2 if block == 0 and number > 1 else 1
                group.append(ResidualBlock(inputs, width * 2 ** (number - 1), stride))
                inputs = width * 2 ** (number - 1) * 4
            setattr(self, f"layer{number}", group)
        self.classifier = nn.Dense(inputs, classes)

    def construct(self, x):
        x = self.conv_block1(x)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.classifier(x.mean((2, 3)))


def resnet50() -> ResNet:
    return ResNet((3, 4, 6, 3))


def small() -> ResNet:
    """The same with a block a group, and narrow: quick to compare."""
    return ResNet((1, 1, 1, 1), width=8)
