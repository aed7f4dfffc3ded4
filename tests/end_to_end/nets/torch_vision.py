"""Image models in PyTorch, as their users write them, narrow enough to run in a moment."""

import torch
import torch.nn.functional as F
from torch import nn


class Vgg(nn.Module):
    """VGG from a configuration list, with or without BatchNorm; (N, 3, 32, 32) to (N, 10)."""

    def __init__(self, cfg=(8, "M", 16, 16, "M", 32, "M"), batch_norm=False, classes=10):
        super().__init__()
        layers, channels = [], 3
        for v in cfg:
            if v == "M":
                layers += [nn.MaxPool2d(kernel_size=2, stride=2)]
                continue
            layers += [nn.Conv2d(channels, v, kernel_size=3, padding=1)]
            if batch_norm:
                layers += [nn.BatchNorm2d(v)]
            layers += [nn.ReLU(inplace=True)]
            channels = v
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d((2, 2))
        self.classifier = nn.Sequential(
            nn.Linear(channels * 4, 32),
            nn.ReLU(True),
            nn.Dropout(),
            nn.Linear(32, 32),
            nn.ReLU(True),
            nn.Dropout(p=0.3),
            nn.Linear(32, classes),
        )

    def forward(self, x):
        x = self.features(x)
        x = self.avgpool(x)
        x = torch.flatten(x, 1)
        return self.classifier(x)


def vgg_bn():
    return Vgg(batch_norm=True)


class BasicBlock(nn.Module):
    def __init__(self, inplanes, planes, stride=1, downsample=None):
        super().__init__()
        self.conv1 = nn.Conv2d(inplanes, planes, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(planes, planes, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.downsample = downsample

    def forward(self, x):
        identity = x
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        if self.downsample is not None:
            identity = self.downsample(x)
        out += identity
        return self.relu(out)


class ResNet(nn.Module):
    """A two-group residual net on (N, 3, 32, 32)."""

    def __init__(self, classes=10):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(8)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        self.layer1 = self._group(8, 8, 2, 1)
        self.layer2 = self._group(8, 16, 2, 2)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(16, classes)

    def _group(self, inplanes, planes, blocks, stride):
        downsample = None
        if stride != 1 or inplanes != planes:
            downsample = nn.Sequential(
                nn.Conv2d(inplanes, planes, 1, stride, bias=False), nn.BatchNorm2d(planes)
            )
        layers = [BasicBlock(inplanes, planes, stride, downsample)]
        layers += [BasicBlock(planes, planes) for _ in range(1, blocks)]
        return nn.Sequential(*layers)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer2(self.layer1(x))
        x = self.avgpool(x)
        x = x.view(x.size(0), -1)
        return self.fc(x)


class ConvBnRelu6(nn.Sequential):
    def __init__(self, inp, out, kernel=3, stride=1, groups=1):
        super().__init__(
            nn.Conv2d(inp, out, kernel, stride, (kernel - 1) // 2, groups=groups, bias=False),
            nn.BatchNorm2d(out),
            nn.ReLU6(inplace=True),
        )


class InvertedResidual(nn.Module):
    def __init__(self, inp, oup, stride, expand_ratio):
        super().__init__()
        hidden = round(inp * expand_ratio)
        self.use_res_connect = stride == 1 and inp == oup
        layers = []
        if expand_ratio != 1:
            layers.append(ConvBnRelu6(inp, hidden, kernel=1))
        layers.extend(
            [
                ConvBnRelu6(hidden, hidden, stride=stride, groups=hidden),
                nn.Conv2d(hidden, oup, 1, 1, 0, bias=False),
                nn.BatchNorm2d(oup),
            ]
        )
        self.conv = nn.Sequential(*layers)

    def forward(self, x):
        if self.use_res_connect:
            return x + self.conv(x)
        return self.conv(x)


class MobileNetV2(nn.Module):
    def __init__(self, classes=10):
        super().__init__()
        features = [ConvBnRelu6(3, 8, stride=2)]
        inp = 8
        for t, c, n, s in [(1, 8, 1, 1), (6, 12, 2, 2), (6, 16, 2, 2)]:
            for i in range(n):
                features.append(InvertedResidual(inp, c, s if i == 0 else 1, t))
                inp = c
        features.append(ConvBnRelu6(inp, 32, kernel=1))
        self.features = nn.Sequential(*features)
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(32, classes))

    def forward(self, x):
        x = self.features(x)
        x = F.adaptive_avg_pool2d(x, (1, 1)).reshape(x.shape[0], -1)
        return self.classifier(x)


class DenseLayer(nn.Module):
    def __init__(self, channels, growth, bn_size=2):
        super().__init__()
        self.norm1 = nn.BatchNorm2d(channels)
        self.relu1 = nn.ReLU(inplace=True)
        self.conv1 = nn.Conv2d(channels, bn_size * growth, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(bn_size * growth)
        self.relu2 = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(bn_size * growth, growth, 3, padding=1, bias=False)

    def forward(self, features):
        x = torch.cat(features, 1)
        x = self.conv1(self.relu1(self.norm1(x)))
        return self.conv2(self.relu2(self.norm2(x)))


class DenseBlock(nn.ModuleDict):
    def __init__(self, layers, channels, growth):
        super().__init__()
        for i in range(layers):
            self.add_module(f"denselayer{i + 1}", DenseLayer(channels + i * growth, growth))

    def forward(self, init):
        features = [init]
        for _, layer in self.items():
            features.append(layer(features))
        return torch.cat(features, 1)


class DenseNet(nn.Module):
    def __init__(self, classes=10):
        super().__init__()
        self.features = nn.Sequential()
        self.features.add_module("conv0", nn.Conv2d(3, 8, 3, padding=1, bias=False))
        channels = 8
        for i, layers in enumerate((2, 3)):
            self.features.add_module(f"denseblock{i + 1}", DenseBlock(layers, channels, 4))
            channels += layers * 4
            if i == 0:
                transition = nn.Sequential()
                transition.add_module("norm", nn.BatchNorm2d(channels))
                transition.add_module("relu", nn.ReLU(inplace=True))
                transition.add_module("conv", nn.Conv2d(channels, channels // 2, 1, bias=False))
                transition.add_module("pool", nn.AvgPool2d(2, 2))
                self.features.add_module("transition1", transition)
                channels //= 2
        self.features.add_module("norm5", nn.BatchNorm2d(channels))
        self.classifier = nn.Linear(channels, classes)

    def forward(self, x):
        out = F.relu(self.features(x), inplace=True)
        out = F.adaptive_avg_pool2d(out, (1, 1))
        return self.classifier(torch.flatten(out, 1))


class LeNet(nn.Module):
    """LeNet-5 as LeCun had it: tanh and average pooling, on (N, 1, 32, 32)."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(16 * 5 * 5, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, 10)

    def forward(self, x):
        x = F.avg_pool2d(torch.tanh(self.conv1(x)), 2)
        x = F.avg_pool2d(torch.tanh(self.conv2(x)), 2)
        x = x.view(-1, 16 * 5 * 5)
        x = torch.tanh(self.fc1(x))
        x = torch.tanh(self.fc2(x))
        return F.log_softmax(self.fc3(x), dim=1)


class Fire(nn.Module):
    def __init__(self, inplanes, squeeze, expand):
        super().__init__()
        self.squeeze = nn.Conv2d(inplanes, squeeze, kernel_size=1)
        self.squeeze_activation = nn.ReLU(inplace=True)
        self.expand1x1 = nn.Conv2d(squeeze, expand, kernel_size=1)
        self.expand1x1_activation = nn.ReLU(inplace=True)
        self.expand3x3 = nn.Conv2d(squeeze, expand, kernel_size=3, padding=1)
        self.expand3x3_activation = nn.ReLU(inplace=True)

    def forward(self, x):
        x = self.squeeze_activation(self.squeeze(x))
        return torch.cat(
            [self.expand1x1_activation(self.expand1x1(x)), self.expand3x3_activation(self.expand3x3(x))], 1
        )


class SqueezeNet(nn.Module):
    """Fire modules and ceil_mode pools; the adaptive pool's (3, 5) does not divide its input's 7 x 7."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, kernel_size=3, stride=2),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(kernel_size=3, stride=2, ceil_mode=True),
            Fire(8, 4, 8),
            Fire(16, 4, 8),
        )
        self.classifier = nn.Sequential(nn.Dropout(p=0.5), nn.Conv2d(16, 6, kernel_size=1), nn.ReLU(True))
        self.pool = nn.AdaptiveAvgPool2d((3, 5))

    def forward(self, x):
        return self.pool(self.classifier(self.features(x)))


class OddConvolutions(nn.Module):
    """Groups, dilation, asymmetric kernels and strides, same padding of an even kernel, padding modes."""

    def __init__(self):
        super().__init__()
        self.grouped = nn.Conv2d(4, 8, 3, padding=1, groups=2)
        self.dilated = nn.Conv2d(8, 8, 3, padding=2, dilation=2, bias=False)
        self.oblong = nn.Conv2d(8, 8, (1, 5), stride=(1, 2), padding=(0, 2))
        self.tall = nn.Conv2d(8, 8, (3, 1), stride=(2, 1), dilation=(2, 1))
        self.same = nn.Conv2d(8, 8, 4, padding="same")
        self.valid = nn.Conv2d(8, 8, 2, padding="valid")
        self.reflect = nn.Conv2d(8, 4, 3, padding=1, padding_mode="reflect")
        self.depthwise = nn.Conv2d(4, 8, 3, groups=4)

    def forward(self, x):
        x = self.dilated(self.grouped(x))
        x = self.tall(self.oblong(x))
        x = self.valid(self.same(x))
        return self.depthwise(self.reflect(x))


class Decoder(nn.Module):
    """A DCGAN-like generator: transposed convolutions with output padding, groups and dilation."""

    def __init__(self):
        super().__init__()
        self.project = nn.Linear(6, 8 * 4 * 4)
        self.main = nn.Sequential(
            nn.ConvTranspose2d(8, 8, 4, 2, 1, bias=False),
            nn.BatchNorm2d(8),
            nn.ReLU(True),
            nn.ConvTranspose2d(8, 4, 3, stride=2, padding=1, output_padding=1),
            nn.LeakyReLU(0.2, inplace=True),
            nn.ConvTranspose2d(4, 4, 3, groups=2, dilation=2),
            nn.Upsample(scale_factor=2, mode="nearest"),
            nn.Conv2d(4, 3, 3, padding=1),
            nn.Tanh(),
        )

    def forward(self, z):
        x = self.project(z).view(-1, 8, 4, 4)
        return self.main(x)


class UNet(nn.Module):
    """Down, up and a skip connection."""

    def __init__(self):
        super().__init__()
        self.down1 = self.double(3, 8)
        self.down2 = self.double(8, 16)
        self.pool = nn.MaxPool2d(2)
        self.up = nn.ConvTranspose2d(16, 8, 2, stride=2)
        self.conv = self.double(16, 8)
        self.out = nn.Conv2d(8, 2, 1)

    @staticmethod
    def double(inputs, outputs):
        return nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, padding=1),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, padding=1),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
        )

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(self.pool(a))
        return torch.sigmoid(self.out(self.conv(torch.cat([a, self.up(b)], dim=1))))


class Pools(nn.Module):
    """Pools with padding, ceil_mode, dilation, divisors; global pools written as means."""

    def __init__(self):
        super().__init__()
        self.a = nn.MaxPool2d(3, stride=2, padding=1, ceil_mode=True)
        self.b = nn.AvgPool2d(3, stride=2, padding=1)
        self.c = nn.AvgPool2d(3, stride=2, padding=1, count_include_pad=False)
        self.d = nn.MaxPool2d((2, 3), stride=(1, 2), padding=(1, 0))
        self.e = nn.AvgPool2d(2, ceil_mode=True)

    def forward(self, x):
        a, b, c = self.a(x), self.b(x), self.c(x)
        d = self.d(b - c)
        e = self.e(a)
        return torch.cat(
            [t.mean(dim=(2, 3)) for t in (a, b, c, d, e)] + [F.max_pool2d(x, x.shape[-1]).flatten(1)], 1
        )


class SqueezeExcite(nn.Module):
    def __init__(self, channels, reduction=2):
        super().__init__()
        self.fc1 = nn.Conv2d(channels, channels // reduction, 1)
        self.fc2 = nn.Conv2d(channels // reduction, channels, 1)

    def forward(self, x):
        s = x.mean((2, 3), keepdim=True)
        s = F.hardsigmoid(self.fc2(F.relu(self.fc1(s))))
        return x * s


class MobileNetV3(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8, eps=1e-3, momentum=0.01), nn.Hardswish()
        )
        self.block = nn.Sequential(
            nn.Conv2d(8, 8, 5, 1, 2, groups=8, bias=False),
            nn.BatchNorm2d(8, eps=1e-3, momentum=0.01),
            nn.Hardswish(),
            SqueezeExcite(8),
        )
        self.head = nn.Linear(8, 10)

    def forward(self, x):
        x = self.stem(x)
        x = x + self.block(x)
        return self.head(x.mean([2, 3]))


class ShuffleUnit(nn.Module):
    """ShuffleNet's channel shuffle: chunk, view, transpose, contiguous, view."""

    def __init__(self, channels=8):
        super().__init__()
        half = channels // 2
        self.branch = nn.Sequential(
            nn.Conv2d(half, half, 1, bias=False),
            nn.BatchNorm2d(half),
            nn.ReLU(inplace=True),
            nn.Conv2d(half, half, 3, 1, 1, groups=half, bias=False),
            nn.BatchNorm2d(half),
        )

    def forward(self, x):
        x1, x2 = x.chunk(2, dim=1)
        out = torch.cat((x1, self.branch(x2)), dim=1)
        n, c, h, w = out.size()
        out = out.view(n, 2, c // 2, h, w)
        out = torch.transpose(out, 1, 2).contiguous()
        return out.view(n, -1, h, w)


class ShuffleNet(nn.Sequential):
    def __init__(self):
        super().__init__(
            nn.Conv2d(3, 8, 3, 2, 1), ShuffleUnit(), ShuffleUnit(), nn.Flatten(), nn.LazyLinear(5)
        )
        self(torch.zeros(1, 3, 16, 16))
