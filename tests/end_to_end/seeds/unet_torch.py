"""A small U-Net that keeps a whole ResNet as `base_model` and takes its first children as its own layers."""

import torch
from torch import nn


class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(8)
        self.relu = nn.ReLU()
        self.layer1 = nn.Sequential(nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.ReLU())
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(16, 100)

    def forward(self, x):
        x = self.layer1(self.relu(self.bn1(self.conv1(x))))
        return self.fc(self.avgpool(x).flatten(1))


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.base_model = Backbone()
        self.base_layers = list(self.base_model.children())
        self.layer0 = nn.Sequential(*self.base_layers[:3])
        self.layer1 = self.base_layers[3]
        self.up = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
        self.merge = nn.Conv2d(24, 8, 3, padding=1)
        self.last = nn.Conv2d(8, 2, 1)

    def forward(self, x):
        low = self.layer0(x)
        high = self.up(self.layer1(low))
        return self.last(torch.relu(self.merge(torch.cat([low, high], 1))))
