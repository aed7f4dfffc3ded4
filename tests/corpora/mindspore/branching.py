"""Cells whose course depends on tensors: branches, loops, early returns."""

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops


class Base(nn.Cell):
    """Two layers, a list of two, and a parameter of its own."""

    def __init__(self):
        super().__init__()
        self.a = nn.Dense(4, 4)
        self.c = nn.Dense(4, 4)
        self.layers = nn.CellList([nn.Dense(4, 4), nn.Dense(4, 4)])
        self.w = Parameter(Tensor(np.array([1, 2, 0.5, -1], np.float32)))


class TwoLayers(Base):
    def construct(self, x):
        if x.sum() > 0:
            y = self.a(x)
            y = y * 0.5
        else:
            y = self.c(x)
        return y + 1


class Counted(Base):
    def construct(self, x):
        i = Tensor(0, ms.int32)
        while i < 3:
            if x.sum() > 0:
                x = self.a(x)
                x = x - 0.5
            else:
                x = self.c(x) + self.w
            i = i + 1
        return x


class EarlyReturns(Base):
    def construct(self, x):
        if x.mean() > 0.5:
            return self.a(x) * self.w
        z = x + self.w
        if z.sum() > 3:
            return z
        return self.c(z) * 2


class BreakAndContinue(Base):
    def construct(self, x):
        i = Tensor(0, ms.int32)
        while i < 5:
            x = x * 1.5
            if x.sum() > 10:
                break
            if x.mean() < 0:
                i = i + 2
                continue
            x = x * 2 + self.w
            i = i + 1
        return x, i


class ReturnFromLoop(Base):
    def construct(self, x):
        i = Tensor(0, ms.int32)
        while i < 4:
            x = x + self.a(x)
            if x.sum() > 6:
                return x * 3
            i = i + 1
        return self.c(x) - 1


class LoopInLoop(Base):
    def construct(self, x):
        i = Tensor(0, ms.int32)
        while i < 3:
            j = Tensor(0, ms.int32)
            while j <= i:
                x = x * 0.5 + self.w
                j = j + 1
            i = i + 1
        return x * 2


class LeavesBothLoops(Base):
    def construct(self, x):
        i = Tensor(0, ms.int32)
        while i < 3:
            j = Tensor(0, ms.int32)
            while j < 4:
                x = x + 1
                if x.sum() > 12:
                    return x
                if x.max() > 5:
                    break
                j = j + 1
            x = x - self.w
            i = i + 1
        return x * 2


class Condition(Base):
    """`and`, `or` and a conditional expression, which do not evaluate what they need not."""

    def construct(self, x):
        return x * 2 if (x.sum() > 0 and x.max() > 1) or x.mean() < -0.5 else x - 1


class Chain(Base):
    """A Python number that the branches choose."""

    def construct(self, x):
        n = x.sum()
        if n > 3:
            k = 1
        elif n > 0 and not (x.max() > 1):
            k = 2
        elif n > -3:
            k = 3
        else:
            k = 4
        return x * k


class Half(nn.Cell):
    def __init__(self):
        super().__init__()
        self.d = nn.Dense(4, 4)

    def construct(self, x):
        if x.sum() > 0:
            return self.d(x), x
        return x, x * 2


class BranchInModule(nn.Cell):
    def __init__(self):
        super().__init__()
        self.first = Half()
        self.second = Half()

    def construct(self, x):
        p, q = self.first(x)
        r, t = self.second(p + q)
        return r + t


class PythonCounter(Base):
    def construct(self, x):
        i = 0
        while x.sum() < 10:
            x = x + 1
            i = i + 1
        return x, i


class OfNumbers(Base):
    """Branches on what `.item()` and `bool()` give."""

    def construct(self, x):
        v = x.sum().item()
        if v * 3.5 - 1 > 0.1:
            x = x * v
        if bool((x > 0).all()) or not bool((x > -5).any()):
            return x * 2
        return self.a(x)


class LayersInCondition(Base):
    def construct(self, x):
        while ops.abs(self.c(x)).sum() < 6:
            x = x + self.a(x) * 0.1 + 0.5
        return self.a(x)


class Nested(Base):
    """Several results, one of which is the batch's size in both branches."""

    def construct(self, x):
        if x.sum() > 0:
            if x.max() > 1:
                y, z = self.a(x), ops.ones((x.shape[0], 2), ms.float32)
            else:
                y, z = self.layers[0](x), x[:, :2]
        else:
            y, z = self.layers[1](x) + x, x[:, 1:3] * 2
        return y, z, x.sum(1)


class Newton(nn.Cell):
    def construct(self, x):
        y = ops.abs(x) + 1
        g = y
        while ops.abs(g * g - y).max() > 1e-3:
            g = (g + y / g) * 0.5
        return g


class Fibonacci(nn.Cell):
    def construct(self, x, n):
        a, b, i = Tensor(0, ms.int32), Tensor(1, ms.int32), Tensor(0, ms.int32)
        while i < n:
            a, b = b, a + b
            i += 1
        return x * a


class Methods(Base):
    """A method with a loop, called in three places."""

    def raised(self, x):
        while x.sum() < 5:
            x = x + 1
        return x

    def construct(self, x):
        y = self.raised(x)
        if y.max() > 3:
            return self.raised(y - 2)
        return self.raised(y * 0.2)


class Optional(nn.Cell):
    """A whole SequentialCell, with a Dropout, in a branch."""

    def __init__(self):
        super().__init__()
        self.body = nn.SequentialCell(nn.Dense(4, 4), nn.ReLU(), nn.Dropout(p=0.3), nn.Dense(4, 4))
        self.norm = nn.LayerNorm((4,))

    def construct(self, x):
        if x.mean() > 0:
            x = self.body(x)
        return self.norm(x)


class Endless(nn.Cell):
    def construct(self, x):
        while True:
            x = x * 1.5 + 0.01
            if ops.abs(x).sum() > 20:
                break
        return x


class LayersBySize(Base):
    """Which Cells run depends on the size of the batch, not on a tensor."""

    def construct(self, x):
        if x.shape[0] > 2:
            x = self.a(x)
        return x.reshape(-1)


class ManyReturns(nn.Cell):
    """What follows each `if` is reached on two ways."""

    def construct(self, x):
        for i in range(10):
            if x.sum() > i:
                x = x - 0.1
            elif x.max() > 2:
                return x
        return x


class Places(Base):
    """Indices that are counted, and a condition that guards one of them."""

    def construct(self, x):
        i = Tensor(0, ms.int32)
        y = ops.zeros((x.shape[0],), ms.float32)
        while i < 4 and x[0, i] < 1:
            y = y + x[:, i] * (i + 1)
            i = i + 1
        return y


class RecurrentBranch(nn.Cell):
    def __init__(self):
        super().__init__()
        self.steps = nn.GRU(4, 4, batch_first=True)
        self.d = nn.Dense(4, 4)

    def construct(self, x):
        if x.sum() < 0:
            return self.steps(x.expand_dims(1))[0][:, 0]
        return self.d(x)


class ChosenLayer(Base):
    def construct(self, x, n):
        return (self.a, self.c)[n](x)
