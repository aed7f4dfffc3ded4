"""A digit classifier, as the PyTorch half of a guide has it."""

import torch
from torch import nn


class Features(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, padding=1)
        self.bn1 = nn.BatchNorm2d(8)
        self.conv2 = nn.Conv2d(8, 16, 3, padding=1)
        self.bn2 = nn.BatchNorm2d(16)
        self.pool = nn.AdaptiveMaxPool2d((4, 4))
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x):
        x = torch.relu(self.bn1(self.conv1(x)))
        return self.pool(torch.relu(self.bn2(self.conv2(x))))


class Digits(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = Features()
        self.fc1 = nn.Linear(256, 32)
        self.fc2 = nn.Linear(32, 10)
        for parameter in self.features.conv1.parameters():
            parameter.requires_grad = False

    def forward(self, x):
        x = self.features(x).flatten(1)
        return self.fc2(torch.relu(self.fc1(x)))
