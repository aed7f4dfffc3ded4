"""Models that cannot be read, each for a reason of its own."""

from mindspore import Tensor, nn, ops


class Unsupported(nn.Cell):
    def construct(self, x):
        y = ops.abs(x) + 1
        return ops.igamma(y, y) + ops.igammac(y, y)


class Raises(nn.Cell):
    def construct(self, x):
        return ops.matmul(x, x)


class Uncompiled(nn.Cell):
    def construct(self, x):
        match x.ndim:
            case 2:
                return x * 2
        return x


class BatchBound(nn.Cell):
    """What it computes depends on the size of the batch."""

    def construct(self, x):
        return x * (1.0 / x.shape[0])


class Squeezed(nn.Cell):
    """Without its axes of size 1, a batch of 1 among them."""

    def construct(self, x):
        return ops.squeeze(x)


class Alignment(nn.Cell):
    """Steps over frames, which lie along axis 0; `every` gives what only its gradient needs too."""

    def __init__(self, every=False):
        super().__init__()
        self.labels, self.counts = Tensor([[1, 2], [3, 3]]), Tensor([2, 1])
        self.frames = Tensor([4, 3])
        self.every = every

    def construct(self, x):
        scores = ops.log_softmax(x, 2)
        found = ops.ctc_loss(scores, self.labels, self.frames, self.counts, reduction="none")
        return found if self.every else found[0]
