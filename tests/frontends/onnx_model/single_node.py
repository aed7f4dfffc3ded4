"""Models of one operator of ONNX Runtime's own domain, compared with what regraft writes of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnxruntime import InferenceSession

import regraft
from regraft.backends.onnx_model import to_model


def made(
    operator: str,
    operands: list[np.ndarray | None],
    attributes: dict[str, Any],
    inputs: list[int],
    outputs: int,
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A model of one operator, and the values of its inputs; other operands are initializers."""
    names = ["" if each is None else f"v{at}" for at, each in enumerate(operands)]
    given = {names[at]: each for at in inputs if (each := operands[at]) is not None}
    info = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(each.dtype), each.shape)
        for name, each in given.items()
    ]
    stored = [
        numpy_helper.from_array(np.asarray(each), names[at])
        for at, each in enumerate(operands)
        if each is not None and names[at] not in given
    ]
    ends = [f"y{at}" for at in range(outputs)]
    node = helper.make_node(operator, names, ends, "node", domain="com.microsoft", **attributes)
    ends = [helper.make_empty_tensor_value_info(name) for name in ends]
    graph = helper.make_graph([node], "net", info, ends, stored)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8), given


def compare(proto: onnx.ModelProto, given: dict[str, np.ndarray]) -> None:
    """Compare a model with what regraft writes of it, both in ONNX Runtime."""
    wanted = InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, given)
    written = to_model(regraft.load(proto, given))
    assert not any(node.domain == "com.microsoft" for node in written.graph.node)
    session = InferenceSession(written.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_inputs()]
    for a, b in zip(session.run(None, dict(zip(names, given.values(), strict=True))), wanted, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=2e-6 * max(1.0, float(np.abs(b).max())))
