"""Shapes that a run computes, in MindSpore source: read once they are there, in both modes, in every call."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto as T
from onnx import helper, numpy_helper

import regraft

from .test_mindspore_constructs import load_emitted, mode_of

pytestmark = pytest.mark.xdist_group("mindspore")

CALLS = 40
"""Calls of one net; a shape that is read too early is wrong in some of them, or ends the process."""


class Buffers(torch.nn.Module):
    """Shapes of a buffer: a reshape, and an expansion."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("parts", torch.tensor(3))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x.view(2, self.parts, -1) * 2, x[:1, :1].expand(2, self.parts, 2) + 1


def copying(path: Path) -> Path:
    """A file with a shape of a copied size, one that data gives, and what is left."""
    nodes = [
        helper.make_node("ReduceSum", ["k"], ["count"], keepdims=1),
        helper.make_node("Concat", ["zero", "count", "rest"], ["shape"], axis=0),
        helper.make_node("Reshape", ["x", "shape"], ["y"]),
    ]
    inputs = [
        helper.make_tensor_value_info("x", T.FLOAT, [4, 3, 2]),
        helper.make_tensor_value_info("k", T.INT64, [2]),
    ]
    outputs = [helper.make_tensor_value_info("y", T.FLOAT, [4, None, None])]
    constants = [numpy_helper.from_array(np.array([n], np.int64), k) for k, n in (("zero", 0), ("rest", -1))]
    graph = helper.make_graph(nodes, "copying", inputs, outputs, constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
    return path


@pytest.mark.parametrize("kind", ["buffers", "copied"])
def test_every_call_has_the_shape_that_it_computes(kind: str, tmp_path: Path) -> None:
    import mindspore as ms

    x = np.random.default_rng(0).standard_normal((4, 3, 2)).astype(np.float32)
    if kind == "buffers":
        loaded, more = regraft.load(Buffers(), x), []
        wanted = [x.reshape(2, 3, 4) * 2, np.broadcast_to(x[:1, :1], (2, 3, 2)) + 1]
    else:
        loaded, more = regraft.load(str(copying(tmp_path / "m.onnx"))), [np.array([1, 2], np.int64)]
        wanted = [x.reshape(4, 3, 2)]
    written = regraft.rewrite(loaded)
    regraft.save(written.graph, tmp_path / "out", to="mindspore")
    assert "numbers(" in (tmp_path / "out/model.py").read_text()  # else the calls below may end the process
    net = load_emitted(tmp_path / "out").build()
    for mode in (ms.PYNATIVE_MODE, ms.GRAPH_MODE):
        with mode_of(mode):
            for _ in range(CALLS):
                found = net(ms.Tensor(x), *map(ms.Tensor, more))
                found = found if isinstance(found, tuple) else (found,)
                assert [y.asnumpy().tolist() for y in found] == [w.tolist() for w in wanted]
