"""What Cells do with the batch, and calls of one Cell in several forms."""

from mindspore import Parameter, Tensor, nn, ops


class Rows(nn.Cell):
    """Every image by itself."""

    def __init__(self):
        super().__init__()
        self.stem = nn.SequentialCell(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2, 2))
        self.branches = nn.CellList([nn.Conv2d(4, 2, 1), nn.Conv2d(4, 2, 3)])
        self.flatten = nn.Flatten()
        self.head = nn.Dense(2 * 2 * 9, 5)

    def construct(self, x):
        x = self.stem(x)
        x = ops.cat([branch(x) for branch in self.branches], 1)
        return self.head(self.flatten(x))


class Normed(nn.Cell):
    """Layers that ask for a shape and give it back, and one that takes it apart."""

    def __init__(self):
        super().__init__()
        self.norm, self.dense = nn.BatchNorm1d(4), nn.Dense(2, 2)

    def construct(self, x):
        return self.dense(ops.relu(self.norm(x)).reshape(-1, 2, 2)).reshape(-1, 4)


class Forms(nn.Cell):
    """A Cell with and without its second argument, one with a name, one that returns tuples in a tuple."""

    def __init__(self):
        super().__init__()
        self.scale, self.parts, self.dense = Scale(), Parts(), nn.Dense(4, 4)

    def construct(self, x):
        whole, (low, high), number = self.parts(self.dense(x), 3)
        return self.scale(whole) + self.scale(low, high) * number, self.scale(x, by=low)


class Scale(nn.Cell):
    def construct(self, x, by=None):
        return ops.tanh(x) if by is None else ops.tanh(x) * by


class Parts(nn.Cell):
    def construct(self, x, number):
        return x, (ops.relu(x), ops.neg(x)), number


class Joined(nn.Cell):
    """Twice as many rows."""

    def construct(self, x):
        return ops.cat((x, ops.neg(x)), 0)


class Gram(nn.Cell):
    """The batch on both axes, and on none."""

    def construct(self, x):
        return ops.matmul(x, x.T), ops.matmul(x.T, x)


class Deviation(nn.Cell):
    """Divides by one less than the batch, which MindSpore reads from the shape by itself."""

    def construct(self, x):
        return x * ops.std(x, 0)


class Counted(nn.Cell):
    """Multiplies by the batch, which a function outside of the Cell reads."""

    def construct(self, x):
        return x * count(x)


def count(x):
    return x.shape[0]


class Tokens(nn.Cell):
    """Asks for sizes as vision transformers do: patches, a token of a class before them, heads, windows."""

    def __init__(self):
        super().__init__()
        self.token = Parameter(ops.ones((1, 1, 4)))
        self.patch, self.qkv, self.norm = nn.Conv2d(3, 4, 2, 2), nn.Dense(4, 12), nn.LayerNorm((4,))

    def construct(self, x):
        x = self.patch(x)
        b, c, h, w = x.shape
        x = x.reshape(b, c, -1).swapaxes(1, 2)
        windows = self.windows(x.reshape(b, h, w, c))
        x = ops.cat((self.token.broadcast_to((b, -1, -1)), x), 1)
        b, n, c = x.shape
        q, k, v = ops.unstack(self.qkv(x).reshape(b, n, 3, 2, -1).transpose(2, 0, 3, 1, 4), axis=0)
        scores = ops.softmax(ops.matmul(q, k.swapaxes(-1, -2)) * 0.5, -1)
        x = self.norm(ops.matmul(scores, v).swapaxes(1, 2).reshape(b, n, c))
        return x[:, 0], ops.tile(windows, (1, 2)), x.reshape(b * 2, -1)

    @staticmethod
    def windows(x):
        b, h, w, c = x.shape
        rows = x.reshape(b, h // 3, 3, w // 3, 3, c).transpose(0, 1, 3, 2, 4, 5).reshape(-1, 9, c)
        return ops.relu(rows).reshape(rows.shape[0] // (h * w // 9), -1)[:, 1:]


class Merged(nn.Cell):
    """Two reshapes, which are one where nobody asks for the size of the first."""

    def construct(self, x):
        x = x.transpose(0, 2, 3, 1).reshape(-1, 3, 3)
        return x.reshape(x.shape[0] // 12, 2, -1)


class Flattened(nn.Cell):
    """Flattens by sizes that it asks for, all of which the compiler replaces with -1."""

    def construct(self, x):
        b, c, h, w = x.shape
        return x.reshape(b, c * h * w)


class Filled(nn.Cell):
    """Makes a tensor as long as the batch."""

    def construct(self, x):
        return x + ops.ones((x.shape[0], 1))


class Replaced(nn.Cell):
    """One layer has a construct of its own in the place of that of its class."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Dense(4, 4)
        self.layer.construct = self.twice
        self.weight = Parameter(Tensor([2.0, 3.0, 4.0, 5.0]))

    def twice(self, x):
        return x * self.weight

    def construct(self, x):
        return self.layer(x)
