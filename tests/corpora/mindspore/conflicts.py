"""Every way in which MindSpore lets two Parameters have one name, and Cells that it does not see."""

import numpy as np
from mindspore import Parameter, Tensor, nn, ops


def block():
    return nn.SequentialCell(nn.Dense(4, 4), nn.ReLU())


def inserted_into_sequential():
    """Inserted children are registered without a prefix, and a SequentialCell never runs them."""
    net = nn.SequentialCell(nn.Dense(4, 4))
    net.insert_child_to_cell("b1", block())
    net.insert_child_to_cell("b2", block())
    return net


class InsertedIntoCell(nn.Cell):
    def __init__(self):
        super().__init__()
        for k in (1, 2):
            self.insert_child_to_cell(f"b{k}", block())

    def construct(self, x):
        return self.b2(self.b1(x))


class PlainList(nn.Cell):
    """Cells in a Python list are not registered."""

    def __init__(self):
        super().__init__()
        self.blocks = [nn.Dense(4, 4), nn.Dense(4, 4)]
        self.head = nn.Dense(4, 2)

    def construct(self, x):
        for cell in self.blocks:
            x = cell(x)
        return self.head(x)


class KeptList(nn.Cell):
    """A Python list of Cells that a CellList registers too."""

    def __init__(self):
        super().__init__()
        self.blocks = [nn.SequentialCell(nn.Dense(4, 4)), nn.SequentialCell(nn.Dense(4, 4))]
        self.registered = nn.CellList(self.blocks)

    def construct(self, x):
        for cell in self.blocks:
            x = cell(x)
        return x


class NoPrefix(nn.Cell):
    def __init__(self):
        super().__init__(auto_prefix=False)
        self.a = nn.Dense(4, 4)
        self.b = nn.Dense(4, 4)

    def construct(self, x):
        return self.b(self.a(x))


class SameParameterName(nn.Cell):
    def __init__(self):
        super().__init__()
        values = np.random.default_rng(0).standard_normal((2, 4, 4)).astype(np.float32)
        self.a = Parameter(Tensor(values[0]), name="w")
        self.b = Parameter(Tensor(values[1]), name="w")

    def construct(self, x):
        return ops.matmul(ops.matmul(x, self.a), self.b)
