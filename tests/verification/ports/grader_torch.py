"""A small grader of images, by hand in PyTorch."""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv1 = nn.Conv2d(width, width, 3, stride=2, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.shortcut = nn.Conv2d(width, width, 1, stride=2, bias=False)

    def forward(self, x):
        out = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(out)) + self.shortcut(x))


class Grader(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.block = Block(8)
        self.norm = nn.LayerNorm(8)
        self.wide = nn.Linear(8, 24)
        self.act = nn.GELU()
        self.drop = nn.Dropout(0.1)
        self.narrow = nn.Linear(24, 8)
        self.mix = nn.Linear(8, 8, bias=False)
        self.head = nn.Linear(8, 5)

    def forward(self, images):
        x = self.block(self.stem(images)).mean((2, 3))
        x = x + self.narrow(self.drop(self.act(self.wide(self.norm(x)))))
        return self.head(self.mix(x))
