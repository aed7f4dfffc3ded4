"""Slices that run backwards along axes of any length, in emitted MindSpore source."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from mindspore import Tensor
from onnx import helper, numpy_helper

import regraft

LEAST = -(2**63)
LENGTHS = (1, 2, 3, 4, 5, 8)
SLICES = {
    "the whole": ((-1, LEAST, -1), np.s_[::-1]),
    "the whole, to the end of int32": ((-1, -(2**31), -1), np.s_[::-1]),
    "from beyond the end": ((2**63 - 1, LEAST, -1), np.s_[::-1]),
    "every second": ((-1, LEAST, -2), np.s_[::-2]),
    "the last three": ((-1, -4, -1), np.s_[-1:-4:-1]),
    "more than there are": ((-1, -100, -2), np.s_[-1:-100:-2]),
    "down to a place": ((-1, 1, -1), np.s_[-1:1:-1]),
    "from a place": ((2, LEAST, -1), np.s_[2::-1]),
    "between places": ((4, 0, -3), np.s_[4:0:-3]),
    "from before the end": ((-2, LEAST, -2), np.s_[-2::-2]),
    "none": ((2, -1, -1), np.s_[2:-1:-1]),
}


@pytest.fixture(scope="module")
def net(tmp_path_factory):
    """One net with an output for each slice, of an axis whose length is open."""
    nodes, weights, outputs = [], [], []
    for number, (bounds, _) in enumerate(SLICES.values()):
        names = [f"{part}{number}" for part in ("start", "end", "axis", "step")]
        start, end, step = bounds
        weights += [
            numpy_helper.from_array(np.array([value], np.int64), name)
            for name, value in zip(names, (start, end, 1, step), strict=True)
        ]
        nodes.append(helper.make_node("Slice", ["x", *names], [f"y{number}"]))
        outputs.append(helper.make_tensor_value_info(f"y{number}", onnx.TensorProto.FLOAT, ["N", None]))
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["N", "length"])
    graph = helper.make_graph(nodes, "slices", [x], outputs, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    out = tmp_path_factory.mktemp("slices") / "net"
    regraft.save(regraft.rewrite(regraft.load(model)).graph, out, to="mindspore")
    scope = {"__file__": str(out / "model.py"), "__name__": "slices"}
    exec(compile((out / "model.py").read_text(), scope["__file__"], "exec"), scope)
    return scope["build"](), (out / "model.py").read_text()


@pytest.mark.parametrize("length", LENGTHS)
def test_slices_of_any_length(net, length):
    x = np.random.default_rng(length).standard_normal((2, length)).astype(np.float32)
    for (name, (_, taken)), found in zip(SLICES.items(), net[0](Tensor(x)), strict=True):
        want = x[:, taken]
        assert found.shape == want.shape, name
        np.testing.assert_array_equal(found.asnumpy(), want, err_msg=name)


def test_a_whole_axis_is_flipped_without_a_slice(net):
    assert "ops.flip(x, (1,))[" in net[1]  # of every second
    assert net[1].count("ops.flip(x, (1,))\n") + net[1].count("ops.flip(x, (1,)),") >= 1
