"""MobileNet v2 (Sandler et al. 2018), as torchvision lays it out."""

from torch import nn


class ConvBNReLU(nn.Sequential):
    def __init__(self, inputs, outputs, kernel_size=3, stride=1, groups=1):
        super().__init__(
            nn.Conv2d(inputs, outputs, kernel_size, stride, kernel_size // 2, groups=groups, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU6(inplace=True),
        )


class InvertedResidual(nn.Module):
    def __init__(self, inputs, outputs, stride, expansion):
        super().__init__()
        hidden = inputs * expansion
        self.shortcut = stride == 1 and inputs == outputs
        layers = [ConvBNReLU(inputs, hidden, 1)] if expansion != 1 else []
        self.conv = nn.Sequential(
            *layers,
            ConvBNReLU(hidden, hidden, stride=stride, groups=hidden),
            nn.Conv2d(hidden, outputs, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )

    def forward(self, x):
        return x + self.conv(x) if self.shortcut else self.conv(x)


SETTINGS = [
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
]
"""(expansion, channels, blocks, first stride) of every stage."""


class MobileNetV2(nn.Module):
    def __init__(self, classes=1000, settings=SETTINGS):
        super().__init__()
        features, channels = [ConvBNReLU(3, 32, stride=2)], 32
        for expansion, outputs, blocks, stride in settings:
            for block in range(blocks):
                features.append(InvertedResidual(channels, outputs, stride if block == 0 else 1, expansion))
                channels = outputs
        features.append(ConvBNReLU(channels, 1280, 1))
        self.features = nn.Sequential(*features)
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(1280, classes))

    def forward(self, x):
        x = self.features(x).mean([2, 3])
        return self.classifier(x)


def mobilenet_v2(classes=1000):
    """The usual one, with 3.5 million parameters."""
    return MobileNetV2(classes)
