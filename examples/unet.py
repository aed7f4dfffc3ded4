"""U-Net (Ronneberger et al. 2015) with batch normalisation and bilinear upsampling."""

import torch
from torch import nn


class DoubleConv(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        x = self.relu(self.bn1(self.conv1(x)))
        return self.relu(self.bn2(self.conv2(x)))


class Down(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.pool = nn.MaxPool2d(2)
        self.conv = DoubleConv(inputs, outputs)

    def forward(self, x):
        return self.conv(self.pool(x))


class Up(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.up = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
        self.conv = DoubleConv(inputs, outputs)

    def forward(self, x, skipped):
        return self.conv(torch.cat([skipped, self.up(x)], dim=1))


class UNet(nn.Module):
    def __init__(self, channels=3, classes=2, width=64):
        super().__init__()
        self.inc = DoubleConv(channels, width)
        self.down1 = Down(width, 2 * width)
        self.down2 = Down(2 * width, 4 * width)
        self.down3 = Down(4 * width, 4 * width)
        self.up1 = Up(8 * width, 2 * width)
        self.up2 = Up(4 * width, width)
        self.up3 = Up(2 * width, width)
        self.outc = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        x1 = self.inc(x)
        x2 = self.down1(x1)
        x3 = self.down2(x2)
        x = self.down3(x3)
        x = self.up1(x, x3)
        x = self.up2(x, x2)
        x = self.up3(x, x1)
        return self.outc(x)
