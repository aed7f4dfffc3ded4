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
