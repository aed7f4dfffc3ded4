"""MindSpore's layers come back from MindSpore as what they were, with their keys and their arguments."""

from pathlib import Path

import mindspore as ms
import numpy as np
import pytest
from mindspore import nn, ops

import regraft
from regraft import rewrite_file

ROWS = np.random.default_rng(0).standard_normal((2, 8)).astype(np.float32)
WORDS = np.random.default_rng(1).standard_normal((2, 5, 8)).astype(np.float32)
IMAGES = np.random.default_rng(2).standard_normal((2, 3, 6, 6)).astype(np.float32)


class Activated(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Dense(8, 16, activation="gelu")
        self.b = nn.SequentialCell(nn.Dense(16, 8, activation=nn.ReLU()), nn.Dense(8, 4, activation="tanh"))

    def construct(self, x):
        return self.b(self.a(x))


class Normed(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.norm, self.act = nn.Dense(8, 6), nn.BatchNorm1d(6), nn.LeakyReLU(0.3)

    def construct(self, x):
        return self.act(self.norm(self.a(x)))


class Padded(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.a = nn.Embedding(10, 8, padding_idx=3), nn.Dense(8, 4)

    def construct(self, ids):
        return self.a(self.words(ids))


class Join(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(6, 3, 3)

    def construct(self, x, skip):
        return self.conv(ops.cat((skip, x), 1))  # the second argument is read first


class Skipping(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.up1, self.up2 = nn.Conv2d(3, 3, 3), Join(), Join()

    def construct(self, image):
        x = self.first(image)
        return self.up2(self.up1(x, image), image)


class Gate(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.act = nn.Dense(8, 8), nn.Sigmoid()

    def construct(self, x):
        return x * self.act(self.a(x))


class Staged(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.stages = nn.CellList([nn.CellList([Gate() for _ in range(n)]) for n in (2, 1, 3)])

    def construct(self, x):
        for stage in self.stages:
            for block in stage:
                x = block(x)
        return x


class Taken(nn.Cell):
    """Parts by index, and a sequence that is given a layer of the class around it."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Dense(8, 24)
        self.body = nn.SequentialCell(self.a, nn.ReLU())

    def construct(self, x):
        b, n, _ = x.shape
        parts = (self.a(x) + self.body(x)).reshape(b, n, 3, 8).transpose(2, 0, 1, 3)
        return ops.bmm(parts[0], parts[1].swapaxes(1, 2)), parts[2]


class Ended(nn.Cell):
    """Gradients that end, by the function and by the primitive."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.end = nn.Dense(8, 8), ops.StopGradient()

    def construct(self, x):
        found = self.a(x)
        return x + ops.stop_gradient(found - x), self.end(found), ops.stop_gradient(found > 0)


CASES = {
    "ends of gradients": (
        Ended,
        ROWS,
        ["x + ops.stop_gradient(", " = ops.stop_gradient("],
    ),
    "indices and a shared layer": (
        Taken,
        WORDS,
        ["nn.SequentialCell(self.a, nn.ReLU())", "ops.unbind("],
    ),
    "loops over lists in a list": (
        Staged,
        ROWS,
        ["for stage in self.stages:\n            for layer in stage:\n                x = layer(x)\n"],
    ),
    "activation of rows": (
        Activated,
        ROWS,
        ["activation=nn.GELU(approximate=True)", "activation=nn.ReLU()", "activation=nn.Tanh()"],
    ),
    "activation of words": (
        Activated,
        WORDS,
        ["activation=nn.GELU(approximate=True)", "activation=nn.ReLU()", "activation=nn.Tanh()"],
    ),
    "BatchNorm1d": (
        Normed,
        ROWS,
        ["self.norm = nn.BatchNorm1d(6, eps=1e-05, momentum=0.9)", "self.act = nn.LeakyReLU(alpha=0.3)"],
    ),
    "padding_idx": (Padded, np.array([[1, 3, 9]], np.int32), ["nn.Embedding(10, 8", "padding_idx=3"]),
    "names of arguments": (
        Skipping,
        IMAGES,
        ["def construct(self, x, skip):", "def construct(self, image):", "self.up2(x, image)"],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_layers_come_back_as_they_were(name: str, tmp_path: Path) -> None:
    kind, given, wanted = CASES[name]
    ms.set_seed(0)
    net = kind()
    graph = regraft.load(net, [given])
    rewritten = regraft.rewrite(graph)
    _, report = rewrite_file(graph, rewritten, tmp_path / "net", "mindspore")
    assert report is not None
    assert report.passed, report.render()
    source = (tmp_path / "net" / "model.py").read_text()
    assert [text for text in wanted if text not in source] == [], source
    assert source.count("class ") == len({type(c).__name__ for _, c in net.cells_and_names() if _is_own(c)})
    kept = set(ms.load_checkpoint(str(tmp_path / "net" / "model.ckpt")))
    assert kept == {path for path, _ in net.parameters_and_names()}
    _, report = rewrite_file(graph, rewritten, tmp_path / "net.onnx")
    assert report is not None
    assert report.passed, report.render()


def _is_own(cell: nn.Cell) -> bool:
    return type(cell).__module__ == __name__
