"""MindSpore nets in which names, sharing and registration are the point."""

import mindspore as ms
import numpy as np
from mindspore import Parameter, ParameterTuple, Tensor, nn, ops


def block(inputs, outputs):
    return nn.SequentialCell(nn.Dense(inputs, outputs), nn.ReLU())


class Inserted(nn.Cell):
    """`insert_child_to_cell` gives no prefix: two groups with the same parameter names."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Dense(6, 6)
        for k in (1, 2):
            self.insert_child_to_cell(f"b{k}", block(6, 6))
        self.head = nn.Dense(6, 3)

    def construct(self, x):
        return self.head(self.b2(self.b1(self.stem(x))))


class InsertedIntoSequential(nn.Cell):
    """Inserted into a SequentialCell, the blocks are registered and never run."""

    def __init__(self):
        super().__init__()
        self.body = nn.SequentialCell(nn.Dense(6, 6))
        self.body.insert_child_to_cell("b1", block(6, 6))
        self.body.insert_child_to_cell("b2", block(6, 6))

    def construct(self, x):
        return self.body(x)


class ListOfCells(nn.Cell):
    """A plain list: MindSpore registers the Cells of the list under names of its own."""

    def __init__(self):
        super().__init__()
        self.layers = [nn.Dense(6, 6), nn.Dense(6, 6)]
        self.head = nn.Dense(6, 2)

    def construct(self, x):
        for layer in self.layers:
            x = ops.relu(layer(x))
        return self.head(x)


class CellListsInList(nn.Cell):
    """CellLists in a plain list: every CellList starts to count at 0."""

    def __init__(self):
        super().__init__()
        self.stages = [nn.CellList([nn.Dense(6, 6)]), nn.CellList([nn.Dense(6, 6)])]

    def construct(self, x):
        for stage in self.stages:
            for cell in stage:
                x = ops.tanh(cell(x))
        return x


class NoPrefix(nn.Cell):
    """auto_prefix=False: every layer's weight is called `weight`."""

    def __init__(self):
        super().__init__(auto_prefix=False)
        self.a = nn.Dense(6, 6)
        self.b = nn.Dense(6, 6)

    def construct(self, x):
        return self.b(ops.relu(self.a(x)))


class SameExplicitName(nn.Cell):
    """Two children whose authors gave their Parameters one and the same explicit name."""

    class Scale(nn.Cell):
        def __init__(self, value):
            super().__init__(auto_prefix=False)
            self.gain = Parameter(Tensor(np.full((6,), value, np.float32)), name="gain")

        def construct(self, x):
            return x * self.gain

    def __init__(self):
        super().__init__(auto_prefix=False)
        self.first = self.Scale(0.5)
        self.dense = nn.Dense(6, 6)
        self.second = self.Scale(2.0)

    def construct(self, x):
        return self.second(self.dense(self.first(x)))


class TupleOfParameters(nn.Cell):
    """A ParameterTuple of named weights."""

    def __init__(self):
        super().__init__()
        self.weights = ParameterTuple(
            [Parameter(Tensor(np.eye(6, dtype=np.float32) * (k + 1)), name=f"w{k}") for k in range(2)]
        )

    def construct(self, x):
        return ops.matmul(ops.matmul(x, self.weights[0]), self.weights[1])


class ReusedCell(nn.Cell):
    """One Dense under two paths, called twice; a shared ReLU."""

    def __init__(self):
        super().__init__()
        dense = nn.Dense(6, 6)
        self.relu = nn.ReLU()
        self.a = dense
        self.b = nn.SequentialCell(dense, self.relu)
        self.c = nn.Dense(6, 6)

    def construct(self, x):
        return self.c(self.b(self.relu(self.a(x))))


class Siamese(nn.Cell):
    """One encoder, called on two inputs."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.SequentialCell(
            nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2, 2), nn.Flatten(), nn.Dense(64, 8)
        )

    def construct(self, left, right):
        a, b = self.encoder(left), self.encoder(right)
        return ops.sqrt(ops.sum((a - b) ** 2, 1)), a


class RepeatedBlocks(nn.Cell):
    """The repeat-block function of old tutorials: cells made in a loop and set by setattr."""

    def __init__(self):
        super().__init__()
        for i, width in enumerate((8, 8, 4)):
            setattr(self, f"fc{i}", nn.Dense((6, 8, 8)[i], width))
        self.act = nn.Sigmoid()

    def construct(self, x):
        x = self.act(self.fc0(x))
        x = self.act(self.fc1(x))
        return self.fc2(x)


class Renamed(nn.Cell):
    """Names given by hand that have nothing to do with paths; a frozen layer."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Dense(6, 6)
        self.head = nn.Dense(6, 2)
        self.stem.weight.name = "backbone/kernel"
        self.head.weight.name = "2nd.weight"
        for p in self.stem.get_parameters():
            p.requires_grad = False

    def construct(self, x):
        return self.head(ops.relu(self.stem(x)))


class ConstantTensors(nn.Cell):
    """Tensors held as attributes, a Parameter that needs no gradient, arithmetic with scalars."""

    def __init__(self):
        super().__init__()
        self.mean = Tensor(np.array([0.4, 0.5, 0.6], np.float32).reshape(1, 3, 1, 1))
        self.count = Parameter(Tensor(np.array(3.0, np.float32)), name="count", requires_grad=False)
        self.conv = nn.Conv2d(3, 4, 3, has_bias=True)

    def construct(self, x):
        x = (x - self.mean) / 0.25
        y = ops.relu(self.conv(x)) ** 2 + 1
        return ops.reduce_mean(y, (2, 3)) / self.count, y.shape[1] * ops.ones_like(y)[:, 0]


class Arithmetic(nn.Cell):
    """Slices, split, stack, where, comparisons, clip, casts."""

    def __init__(self):
        super().__init__()
        self.dense = nn.Dense(8, 12)

    def construct(self, x):
        y = self.dense(x)
        a, b, c = ops.split(y, 4, axis=1)
        s = ops.stack((a, b, c), axis=1)
        m = ops.where(s > 0, s, -0.1 * s)
        z = ops.clip_by_value(m, -0.5, 2.0)[:, 1:, ::2]
        w = ops.maximum(z, 0.1) / (1 + ops.exp(-z))
        return ops.log(w + 1).sum(axis=-1), ops.cast(y > 0, ms.int32), ops.tile(a, (1, 2))


class SetItem(nn.Cell):
    """Assignments to parts of a local tensor."""

    def __init__(self):
        super().__init__()
        self.dense = nn.Dense(6, 6)

    def construct(self, x):
        y = self.dense(x)
        y[:, 1] = y[:, 0] * 2
        y[:, 3:5] = 0.5
        return y
