"""Evaluates an operator on arrays, by ONNX's reference evaluator."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx

from ..inference import attribute_proto
from ..nodes import Operator
from ..signatures import OPSET
from ..types import Array, dtype_name, is_array, onnx_dtype

_ROUNDED_BY_KERNELS = {
    "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Cos", "Cosh", "Einsum", "Elu", "Erf", "Exp", "Gelu",
    "Gemm", "Log", "LogSoftmax", "MatMul", "Mish", "Pow", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp",
    "ReduceMean", "ReduceProd", "ReduceSum", "ReduceSumSquare", "Sigmoid", "Sin", "Sinh", "Softmax",
    "Softplus", "Tan", "Tanh",
}  # fmt: skip
"""Operators whose float kernels give other last bits from library to library: computed in float64."""


def evaluate(node: Operator, arrays: list[Array | None]) -> Array | None:
    """Return the first output of an operator by ONNX's reference evaluator; None where it has none."""
    found = evaluate_all(node, arrays, 1)
    return None if found is None else found[0]


def evaluate_all(node: Operator, arrays: list[Array | None], outputs: int) -> list[Array] | None:
    """Return the outputs of an operator by ONNX's reference evaluator; None where it has none.

    Those of few functions are computed in float64 and rounded once, so that no library's kernel decides them.
    """
    if node.op_type in _ROUNDED_BY_KERNELS:
        narrow = {a.dtype for a in arrays if a is not None and a.dtype.name in ("float16", "float32")}
        if len(narrow) == 1:
            wide: list[Array | None] = list(arrays)
            for i, array in enumerate(arrays):
                if array is not None and array.dtype in narrow:
                    wide[i] = array.astype(np.float64)
            found = evaluate_all(node, wide, outputs)
            return None if found is None else [a.astype(narrow.copy().pop()) for a in found]
    from onnx.reference import ReferenceEvaluator  # half a second to import, and most graphs need none

    proto = onnx.NodeProto()
    proto.op_type = node.op_type
    proto.input.extend("" if a is None else f"i{i}" for i, a in enumerate(arrays))
    proto.output.extend(f"o{i}" for i in range(outputs))
    for name, value in node.attributes.items():
        proto.attribute.append(attribute_proto(name, value))
    infos = [
        onnx.helper.make_tensor_value_info(f"i{i}", onnx_dtype(dtype_name(a.dtype)), a.shape)
        for i, a in enumerate(arrays)
        if a is not None
    ]
    graph = onnx.helper.make_graph(
        [proto], "fold", infos, [onnx.ValueInfoProto(name=o) for o in proto.output]
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", OPSET)])
    feeds = {f"i{i}": a for i, a in enumerate(arrays) if a is not None}
    try:
        evaluator: Any = ReferenceEvaluator(model)  # what it gives is in no annotation
        results = list(evaluator.run(None, feeds))
    except Exception:  # foreign code: whatever it cannot evaluate stays in the graph
        return None
    if not all(is_array(result) or isinstance(result, np.generic) for result in results):
        return None
    return [np.asarray(result) for result in results]
