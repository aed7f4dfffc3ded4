"""Cells and Parameters that are used more than once."""

from mindspore import nn, ops


class CalledTwice(nn.Cell):
    def __init__(self):
        super().__init__()
        self.a = nn.Dense(4, 4)
        self.act = nn.ReLU()

    def construct(self, x):
        return self.act(self.a(self.act(self.a(x))))


class RegisteredTwice(nn.Cell):
    """One Dense under two attributes; its Parameter bears the name of the last."""

    def __init__(self):
        super().__init__()
        dense = nn.Dense(4, 4)
        self.a = dense
        self.b = nn.SequentialCell(dense, nn.ReLU())
        self.c = nn.Dense(4, 3)

    def construct(self, x):
        return self.c(self.b(self.a(x)))


class TiedEmbedding(nn.Cell):
    """The head's weight is the embedding's Parameter."""

    def __init__(self, words=11, width=6):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.norm = nn.LayerNorm((width,))
        self.head = nn.Dense(width, words, has_bias=False)
        self.head.weight = self.embed.embedding_table

    def construct(self, ids):
        return self.head(self.norm(self.embed(ids)))


class Siamese(nn.Cell):
    """One tower on two inputs."""

    def __init__(self):
        super().__init__()
        self.tower = nn.SequentialCell(nn.Dense(5, 4), nn.Tanh())

    def construct(self, left, right):
        return ops.abs(self.tower(left) - self.tower(right))


class Scale(nn.Cell):
    """Functions and operators only: nothing but its boundary tells that it ran."""

    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def construct(self, x):
        return x * self.factor + x


class Lists(nn.Cell):
    """Cells in a SequentialCell, a CellList and a CellDict, called by index, in a loop and by name."""

    def __init__(self):
        super().__init__()
        self.row = nn.SequentialCell(Scale(2.0), Scale(3.0))
        self.items = nn.CellList([Scale(0.5), Scale(0.25)])
        self.act = nn.ReLU()

    def construct(self, x):
        x = self.row(x)
        for item in self.items:
            x = item(x)
        return self.act(self.items[1](x))


class Outputs(nn.Cell):
    """A nested tuple with an input in it."""

    def construct(self, x, y=None):
        total = x + 1 if y is None else x + y
        return total, (x, ops.split(x, 2, 1))
