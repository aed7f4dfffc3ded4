"""Models that cannot be read, each for a reason of its own."""

from mindspore import nn, ops


class Branch(nn.Cell):
    def __init__(self):
        super().__init__()
        self.a = nn.Dense(4, 4)
        self.b = nn.Dense(4, 4)

    def construct(self, x):
        if x.sum() > 0:
            y = self.a(x)
        else:
            y = self.b(x)
        return y + 1


class Unsupported(nn.Cell):
    def construct(self, x):
        y = ops.abs(x) + 1
        return ops.igamma(y, y) + ops.igammac(y, y)


class Raises(nn.Cell):
    def construct(self, x):
        return ops.matmul(x, x)


class Uncompiled(nn.Cell):
    def construct(self, x):
        try:
            return x * 2
        except ValueError:
            return x


class BatchBound(nn.Cell):
    """What it computes depends on the size of the batch."""

    def construct(self, x):
        return x * (1.0 / x.shape[0])


class Squeezed(nn.Cell):
    """Without its axes of size 1, a batch of 1 among them."""

    def construct(self, x):
        return ops.squeeze(x)
