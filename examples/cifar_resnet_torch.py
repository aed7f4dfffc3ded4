"""ResNet-50 for 32x32 images in PyTorch: the original of the port in cifar_resnet_mindspore.py."""

from __future__ import annotations

from torch import Tensor, nn


class Bottleneck(nn.Module):
    """A 1x1, a 3x3 and a 1x1 convolution that widens by 4, and a shortcut."""

    expansion = 4

    def __init__(self, inplanes: int, planes: int, stride: int = 1) -> None:
        super().__init__()
        outplanes = planes * self.expansion
        self.conv1 = nn.Conv2d(inplanes, planes, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, stride=stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.conv3 = nn.Conv2d(planes, outplanes, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(outplanes)
        self.relu = nn.ReLU()
        self.downsample = None
        if stride != 1 or inplanes != outplanes:
            self.downsample = nn.Sequential(
                nn.Conv2d(inplanes, outplanes, 1, stride=stride, bias=False), nn.BatchNorm2d(outplanes)
            )

    def forward(self, x: Tensor) -> Tensor:
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        return self.relu(out + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    """A 3x3 stem without pooling, four groups of blocks, a classifier: (N, 3, 32, 32) -> (N, classes)."""

    def __init__(self, layers: tuple[int, ...], width: int = 64, classes: int = 10) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU()
        planes = width
        for number, blocks in enumerate(layers, 1):
            group = []
            for block in range(blocks):
                stride = 2 if block == 0 and number > 1 else 1
                group.append(Bottleneck(planes, width * 2 ** (number - 1), stride))
                planes = width * 2 ** (number - 1) * Bottleneck.expansion
            setattr(self, f"layer{number}", nn.Sequential(*group))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(planes, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(self.avgpool(x).flatten(1))


def resnet50() -> ResNet:
    return ResNet((3, 4, 6, 3))


def small() -> ResNet:
    """The same with a block a group, and narrow: quick to compare."""
    return ResNet((1, 1, 1, 1), width=8)
