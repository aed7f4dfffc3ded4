"""The same grader by another hand in MindSpore, under names of its own."""

import math

from mindspore import nn, ops
from mindspore.common.initializer import HeUniform, Uniform


def conv(inputs, outputs, kernel, stride=1, bias=False):
    return nn.Conv2d(
        inputs,
        outputs,
        kernel,
        stride,
        pad_mode="pad",
        padding=kernel // 2,
        has_bias=bias,
        weight_init=HeUniform(math.sqrt(5)),
        bias_init=Uniform(1 / math.sqrt(inputs * kernel * kernel)),
    )


def dense(inputs, outputs):
    return nn.Dense(
        inputs, outputs, weight_init=HeUniform(math.sqrt(5)), bias_init=Uniform(1 / math.sqrt(inputs))
    )


class Residual(nn.Cell):
    def __init__(self, channels):
        super().__init__()
        self.first = conv(channels, channels, 3, 2)
        self.first_norm = nn.BatchNorm2d(channels, momentum=0.9)
        self.second = conv(channels, channels, 3)
        self.second_norm = nn.BatchNorm2d(channels, momentum=0.9)
        self.skip = conv(channels, channels, 1, 2)

    def construct(self, x):
        y = ops.relu(self.first_norm(self.first(x)))
        return ops.relu(self.second_norm(self.second(y)) + self.skip(x))


class Marker(nn.Cell):
    def __init__(self):
        super().__init__()
        self.entry = conv(3, 8, 3, bias=True)
        self.stage = Residual(8)
        self.scale = nn.LayerNorm((8,), epsilon=1e-5)
        self.up = dense(8, 24)
        self.gelu = nn.GELU(approximate=False)
        self.dropout = nn.Dropout(p=0.1)
        self.down = dense(24, 8)
        self.blend = nn.Dense(8, 8, has_bias=False, weight_init=HeUniform(math.sqrt(5)))
        self.out = dense(8, 5)

    def construct(self, images):
        x = self.stage(self.entry(images)).mean((2, 3))
        x = x + self.down(self.dropout(self.gelu(self.up(self.scale(x)))))
        return self.out(self.blend(x))
