"""Parameters that `construct` assigns: read at their values of now, and left as they are."""

from __future__ import annotations

import mindspore as ms
import numpy as np
import onnxruntime
import pytest
from mindspore import Parameter, Tensor, nn, ops

import regraft
from regraft.ir import ModelError, UnsupportedError


class _State(nn.Cell):
    def __init__(self):
        super().__init__()
        self.limit = Parameter(Tensor(1.0, ms.float32), name="limit", requires_grad=False)
        self.sums = Parameter(Tensor([1.0, 2, 3, 4], ms.float32), name="sums", requires_grad=False)


class _Attribute(_State):
    def construct(self, x):
        y = ops.clip_by_value(x, -self.limit, self.limit)
        self.limit = ops.minimum(self.limit + 0.5, Tensor(3.0, ms.float32))
        return y * self.sums


class _Read(_State):
    def construct(self, x):
        before = x * self.limit
        ops.assign(self.limit, self.limit * 2)
        return before + self.limit * self.sums


class _Added(_State):
    def construct(self, x):
        ops.assign_add(self.sums, x.sum(0))
        ops.assign_sub(self.limit, Tensor(0.25, ms.float32))
        return x * self.sums * self.limit


class _Twice(_State):
    def construct(self, x):
        self.sums = self.sums * 2
        self.sums = self.sums + self.limit
        return x * self.sums


class _Branch(_State):
    def construct(self, x):
        if x.sum() > 0:
            self.limit = self.limit + 1.0
        return x * self.limit * self.sums


class _Data(_State):
    def construct(self, x):
        y = x * self.limit * self.sums
        self.limit.set_data(self.limit + 1)
        return y


@pytest.mark.parametrize(
    ("kind", "states"),
    [(_Attribute, ["limit"]), (_Read, ["limit"]), (_Added, ["limit", "sums"]), (_Twice, ["sums"])],
)
def test_a_state_is_read_at_its_value_of_now(kind, states, tmp_path):
    net = kind()
    x = np.random.default_rng(0).standard_normal((2, 4)).astype(np.float32)
    graph = regraft.load(net, {"x": x})
    assert (float(net.limit.asnumpy()), net.sums.asnumpy().tolist()) == (1.0, [1.0, 2.0, 3.0, 4.0])
    rewritten = regraft.rewrite(graph)
    assert [c.place for c in rewritten.changes if c.code == "FS101"] == states
    regraft.save(rewritten.graph, tmp_path / "net", "mindspore")
    assert regraft.verify(graph, tmp_path / "net").passed
    assert (float(net.limit.asnumpy()), net.sums.asnumpy().tolist()) == (1.0, [1.0, 2.0, 3.0, 4.0])
    regraft.save(rewritten.graph, tmp_path / "net.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "net.onnx", providers=["CPUExecutionProvider"])
    found = session.run(None, {session.get_inputs()[0].name: x})[0]
    assert np.allclose(found, net(Tensor(x)).asnumpy(), atol=1e-6)


def test_what_cannot_be_read_says_what_to_write():
    x = np.ones((2, 4), np.float32)
    with pytest.raises(UnsupportedError, match="in a branch") as caught:
        regraft.load(_Branch(), {"x": x})
    assert "ops.select" in caught.value.hint
    with pytest.raises(ModelError, match="set_data") as refused:
        regraft.load(_Data(), {"x": x})
    assert "`self.limit = value`" in refused.value.hint


class _WithoutKernel(nn.Cell):
    def construct(self, x):
        return ms.mint.nn.functional.mish(x)


def test_a_kernel_that_is_not_there_is_named_with_what_has_one():
    with pytest.raises(ModelError, match=r"MishExt unregistered") as found:
        regraft.load(_WithoutKernel(), ["2x4"])
    assert "`ops.mish`" in found.value.hint
    assert ops.mish(Tensor(np.ones((2, 4), np.float32))).shape == (2, 4)
