"""Cells that leave the graph where a line says LEAVES, or whose branches do not fit together."""

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops


class OfShapes(nn.Cell):
    def construct(self, x):
        v = np.sqrt(x.sum().item())  # LEAVES OfShapes
        return x * v


class Largest(nn.Cell):
    def construct(self, x):
        y = x + 1
        return y * max(x.sum().item(), 2.0)  # LEAVES Largest


class Inside(nn.Cell):
    def __init__(self):
        super().__init__()
        self.inner = Largest()

    def construct(self, x):
        return self.inner(x) * 2


class NothingYet(nn.Cell):
    def construct(self, x):
        y = None
        if x.sum() > 0:
            y = x * 2
        if y is None:  # LEAVES NothingYet
            return x
        return y


class OfNumber(nn.Cell):
    def construct(self, x):
        n = x.sum().item()
        return x + Tensor(n)  # LEAVES OfNumber


class Checked(nn.Cell):
    def construct(self, x):
        if x.sum() > 1000:
            raise ValueError("too large")
        return x * 2


class Growing(nn.Cell):
    def construct(self, x):
        found = []
        while x.sum() < 5:
            x = x + 1
            found.append(x)
        return x


class TwoRanks(nn.Cell):
    def construct(self, x):
        if x.sum() > 0:
            return x.reshape(-1)
        return x


class TwoTypes(nn.Cell):
    def construct(self, x):
        z = x
        if x.sum() <= 0:
            z = (x > 0).astype(ms.int32)
        return ops.stop_gradient(z)
