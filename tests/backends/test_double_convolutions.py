"""Convolutions in float64, written out for runtimes without such a kernel, against PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from onnxruntime import InferenceSession

from regraft.backends.onnx_model import to_model
from regraft.ir import Builder, Graph, TensorType

DRAW = np.random.default_rng(0)

CASES: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "one place": ((2, 3, 5, 5), (4, 3, 1, 1), {}),
    "strides": ((2, 3, 7, 8), (4, 3, 3, 2), {"strides": [2, 3]}),
    "padding and dilation": ((1, 2, 6, 6), (3, 2, 3, 3), {"pads": [2, 1, 2, 1], "dilations": [2, 1]}),
    "groups": ((2, 4, 6), (6, 2, 3), {"group": 2, "pads": [1, 1]}),
    "one channel a group": ((2, 4, 6, 5), (4, 1, 3, 3), {"group": 4, "strides": [1, 2]}),
    "three axes": ((1, 2, 4, 4, 5), (3, 2, 2, 2, 2), {}),
}


@pytest.mark.parametrize("bias", [False, True], ids=["without bias", "with bias"])
@pytest.mark.parametrize("name", CASES)
def test_is_what_pytorch_computes(name: str, bias: bool) -> None:
    shape, form, attributes = CASES[name]
    x, w, b = (DRAW.standard_normal(size) for size in (shape, form, form[:1]))
    rank = len(form) - 2
    graph = Graph()
    operands = [graph.add_input("x", TensorType("float64", ("N", *shape[1:])))]
    operands += [graph.add_constant(each) for each in ((w, b) if bias else (w,))]
    graph.outputs.append(("y", Builder(graph).op("Conv", *operands, **attributes)))
    model = to_model(graph)
    assert "Conv" not in {node.op_type for node in model.graph.node}
    session = InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    function = (torch.conv1d, torch.conv2d, torch.conv3d)[rank - 1]
    wanted = function(
        torch.from_numpy(x),
        torch.from_numpy(w),
        torch.from_numpy(b) if bias else None,
        stride=attributes.get("strides", 1),
        padding=attributes.get("pads", [0] * rank)[:rank],
        dilation=attributes.get("dilations", 1),
        groups=attributes.get("group", 1),
    )
    np.testing.assert_allclose(session.run(None, {"x": x})[0], wanted.numpy(), rtol=1e-12, atol=1e-12)
