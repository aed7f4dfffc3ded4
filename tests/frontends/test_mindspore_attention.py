"""`nn.MultiheadAttention` of a MindSpore net is one operator, and that layer again in emitted source."""

from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
import onnxruntime
import pytest
from mindspore import nn, ops

import regraft
from regraft.frontends.python_file import load_object
from regraft.ir.composites.multihead import INPUTS
from regraft.verification import verify

RANDOM = np.random.default_rng(0)
X, Y = (RANDOM.standard_normal(s).astype(np.float32) for s in ((2, 5, 8), (2, 7, 8)))
PADDING = np.arange(7) >= np.array([[5], [7]])
AFTER = np.triu(np.ones((5, 5), bool), 1)


class Attending(nn.Cell):
    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.attend = nn.MultiheadAttention(8, 2, batch_first=True, **options)


class Output(Attending):
    def construct(self, x):
        return x + self.attend(x, x, x)[0]


class Weights(Attending):
    def construct(self, x):
        return self.attend(x, x, x)[1]


class EachHead(Attending):
    def construct(self, x, y, padding):
        return self.attend(x, y, y, key_padding_mask=padding, average_attn_weights=False)


class Masked(Attending):
    def construct(self, x, after):
        return self.attend(x, x, x, attn_mask=after, need_weights=False)[0]


class Thrice(Attending):
    """One layer, of whose calls one is read of its weights."""

    def construct(self, x, y):
        x = self.attend(x, x, x)[0]
        x = self.attend(x, y, y)[0]
        return self.attend(x, x, x)


class TwoKinds(Attending):
    """A mask of truth values and one of numbers, which MindSpore adds."""

    def construct(self, x, hidden):
        after = ops.ones((5, 5)).triu(1) * -1e4
        return self.attend(x, x, x, key_padding_mask=hidden, attn_mask=after)[0]


CASES: list[tuple[nn.Cell, tuple[np.ndarray, ...]]] = [
    (Output(dropout=0.1), (X,)),
    (Output(has_bias=False), (X,)),
    (Weights(), (X,)),
    (EachHead(), (X, Y, PADDING)),
    (EachHead(kdim=8, vdim=8), (X, Y, PADDING)),
    (EachHead(add_zero_attn=True), (X, Y, PADDING)),
    (EachHead(add_bias_kv=True), (X, Y, PADDING)),
    (Masked(), (X, AFTER)),
    (Thrice(), (X, Y)),
]


def run(net: Any, inputs: tuple[np.ndarray, ...]) -> list[np.ndarray]:
    found = net(*map(ms.Tensor, inputs))
    return [t.asnumpy() for t in (found if isinstance(found, tuple) else (found,))]


@pytest.mark.slow
@pytest.mark.parametrize(("net", "inputs"), CASES, ids=lambda c: type(c).__name__)
def test_it_comes_back_as_the_layer(net: nn.Cell, inputs: tuple[np.ndarray, ...], tmp_path: Path) -> None:
    net.set_train(False)
    expected = run(net, inputs)
    graph = regraft.rewrite(regraft.load(net, inputs)).graph
    regraft.save(graph, tmp_path / "net.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "net.onnx")
    names = [i.name for i in session.get_inputs()]
    regraft.save(graph, tmp_path / "net", to="mindspore")
    text = (tmp_path / "net" / "model.py").read_text()
    assert "nn.MultiheadAttention(8, 2" in text
    assert ("dropout=0.1" in text) == bool(net.attend.dropout)  # pyright: ignore
    assert "redrawn" not in text
    assert "checkpoint's values" not in text  # every initial distribution is the layer's own
    emitted = load_object(f"{tmp_path}/net/model.py:build")
    runs: tuple[Any, ...] = session.run(None, dict(zip(names, inputs, strict=True))), run(emitted, inputs)
    for found in runs:
        for wanted, got in zip(expected, found, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


def test_its_parameters_are_operands_in_place() -> None:
    net = Output().set_train(False)
    graph = regraft.load(net, (X,))
    (whole,) = [n for n in graph.operators() if n.op_type == "MultiheadAttention"]
    paths = {
        name: graph.parameter(value.node).declared
        for name, value in zip(INPUTS, graph.operands(whole.key), strict=False)
        if value is not None and "_" in name
    }
    assert paths == {
        "out_weight": "attend.out_proj.weight",
        "out_bias": "attend.out_proj.bias",
        "in_weight": "attend.in_proj_weight",
        "in_bias": "attend.in_proj_bias",
    }
    assert len(whole.types) == 1  # nothing reads the weights


def test_masks_of_two_kinds_stay_its_parts() -> None:
    net = TwoKinds().set_train(False)
    graph = regraft.load(net, (X, PADDING[:, :5]))
    assert all(n.op_type != "MultiheadAttention" for n in graph.operators())


@pytest.mark.slow
def test_it_trains_the_same(tmp_path: Path) -> None:
    graph = regraft.load(Output(dropout=0.1), (X,))
    regraft.save(regraft.rewrite(graph).graph, tmp_path / "net", to="mindspore")
    report = verify(graph, tmp_path / "net", train=True)
    assert report.passed, report.summary()
    assert len(report.training) == 4
