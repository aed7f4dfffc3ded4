"""``.mindir`` files: a convolutional net, attention, nested outputs, and a graph with its data beside it."""

from __future__ import annotations

import tempfile
import zlib
from functools import cache
from pathlib import Path

from .fuzz_mxnet import assert_holds_no_code_of_its_source
from .mutation import mutate_message
from .oracle import command
from .registry import Target

_DATA = "net_variables/data_0"


@cache
def _exported() -> tuple[list[bytes], bytes]:
    """The files, of which the last has its data in the other."""
    import mindspore as ms
    import numpy as np
    from mindspore import nn, ops
    from mindspore.train import serialization

    class Images(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.bn = nn.Conv2d(1, 2, 3, stride=2), nn.BatchNorm2d(2)
            self.pool, self.fc = nn.MaxPool2d(2, 2), nn.Dense(8, 3)

        def construct(self, x):
            y = self.pool(ops.relu(self.bn(self.conv(x))))
            values, places = ops.topk(self.fc(y.reshape(x.shape[0], -1)), 2)
            return y.mean((2, 3)), (values, places)

    class Words(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.norm = nn.Embedding(6, 4), nn.LayerNorm((4,))
            self.q, self.out = nn.Dense(4, 8), nn.Dense(4, 6, has_bias=False)
            self.scale = ms.Parameter(ms.Tensor(np.ones(4, np.float16)), name="scale")

        def construct(self, ids):
            x = self.norm(self.embed(ids))
            q, k = ops.split(self.q(x), 4, -1)
            a = ops.softmax(ops.matmul(q, k.swapaxes(1, 2)) / 2 + ops.tril(ops.ones((3, 3))), -1)
            return self.out(ops.matmul(a, x) * self.scale.astype(ms.float32))

    found: list[bytes] = []
    kept = serialization.TOTAL_SAVE
    with tempfile.TemporaryDirectory() as folder:
        images = ms.Tensor(np.ones((2, 1, 8, 8), np.float32))
        open_batch = ms.Tensor(shape=[None, 3], dtype=ms.int32)
        for kind, given in (
            (Images, images),
            (Words, ms.Tensor(np.ones((2, 3), np.int32))),
            (Words, open_batch),
        ):
            net = kind()
            net.set_train(False)
            ms.export(net, given, file_name=f"{folder}/x{len(found)}", file_format="MINDIR")
            found.append(Path(folder, f"x{len(found)}.mindir").read_bytes())
        try:
            serialization.TOTAL_SAVE = 0
            ms.export(Images().set_train(False), images, file_name=f"{folder}/net", file_format="MINDIR")
        finally:
            serialization.TOTAL_SAVE = kept
        found.append(Path(folder, "net_graph.mindir").read_bytes())
        return found, Path(folder, _DATA).read_bytes()


def seeds() -> list[bytes]:
    return _exported()[0]


def _run(data: bytes, folder: Path) -> int:
    path = folder / "given" / "net_graph.mindir"
    path.write_bytes(data)
    (folder / "given" / _DATA).parent.mkdir()
    (folder / "given" / _DATA).write_bytes(_exported()[1])
    choice = zlib.crc32(data) % 10
    if choice < 3:
        return command("show", path, "--ir")
    if choice < 4:
        return command("check", path)
    if choice < 5:
        return command("show", path)
    if choice < 8:
        return command("rewrite", path, "-o", folder / "out" / "net.onnx", *(["--no-verify"] * (choice < 7)))
    code = command("rewrite", path, "-o", folder / "out", "--to", "mindspore", "--no-verify")
    if code == 0:
        assert_holds_no_code_of_its_source(folder / "out")
    return code


TARGETS = [Target("mindir", seeds, mutate_message, _run)]
