"""Computes the graphs of certificates in float64 by ONNX's reference implementation: a judge of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from ...verification.certificate import recheck

DRAWS = (1.0, 10.0)
_CODES = {name: code for code, name in recheck.DTYPES.items()}


class Side(NamedTuple):
    """One graph of a certificate: its operators, its inputs, its sizes."""

    model: onnx.ModelProto
    inputs: list[tuple[str, str, list[int]]]


def read_side(path: Path, side: str) -> Side:
    """Read the source or the target of a certificate as a model that computes in float64."""
    document = json.loads(path.read_text("utf-8"))
    tensors = recheck.Tensors(path.parent, recheck.read_certificate(path).tensors)
    sizes, graph = (document.get("sizes") or [{}])[0], document[side]
    inputs = [
        (row["value"], str(row["dtype"]), [int(sizes.get(d, d)) for d in own["shape"]])
        for own, row in zip(document["source"]["inputs"], graph["inputs"], strict=True)
    ]
    given = [helper.make_tensor_value_info(name, _CODES[_wide(kind)], shape) for name, kind, shape in inputs]
    outs = [
        helper.make_tensor_value_info(row["value"], TensorProto.UNDEFINED, None) for row in graph["outputs"]
    ]
    body = helper.make_graph(_nodes(graph, tensors), side, given, outs, _constants(graph, tensors))
    return Side(helper.make_model(body, opset_imports=[helper.make_opsetid("", 21)]), inputs)


def difference(a: Side, b: Side) -> float:
    """Return by how much outputs differ beside the largest number of each; infinity for another shape."""
    worst = 0.0
    for seed, scale in enumerate(DRAWS):
        rng = np.random.default_rng(seed)
        drawn = [_draw(rng, kind, shape, scale) for _, kind, shape in a.inputs]
        outs = []
        for side in (a, b):
            feed = {
                name: x.astype(_wide(kind)) for (name, kind, _), x in zip(side.inputs, drawn, strict=True)
            }
            outs.append(ReferenceEvaluator(side.model).run(None, feed))
        for x, y in zip(*outs, strict=True):
            if x.shape != y.shape or x.dtype != y.dtype:
                return np.inf
            x, y = x.astype(np.float64), y.astype(np.float64)
            same = (x == y) | (np.isnan(x) & np.isnan(y))
            gap = np.where(same, 0, np.abs(x - y))
            top = np.max(np.abs(x), initial=0, where=np.isfinite(x))
            worst = max(worst, float(np.nan_to_num(np.max(gap, initial=0), nan=np.inf)) / (top or 1.0))
    return worst


def _wide(kind: str) -> str:
    return "float64" if kind in recheck.FLOATS else kind


def _draw(rng: np.random.Generator, kind: str, shape: list[int], scale: float) -> np.ndarray:
    return rng.standard_normal(shape) * scale if kind in recheck.FLOATS else rng.integers(0, 2, shape)


def _constants(graph: dict[str, Any], tensors: recheck.Tensors) -> list[onnx.TensorProto]:
    return [
        numpy_helper.from_array(tensors.load(name).astype(_wide(tensors.entries[name]["dtype"])), value)
        for value, name in graph.get("constants", {}).items()
    ]


def _nodes(graph: dict[str, Any], tensors: recheck.Tensors) -> list[onnx.NodeProto]:
    found = []
    for row in graph.get("nodes", []):
        attributes = {k: _attribute(v, tensors) for k, v in row.get("attributes", {}).items()}
        if row["op"] == "Cast" and recheck.DTYPES.get(attributes["to"]) in recheck.FLOATS:
            attributes["to"] = TensorProto.DOUBLE
        found.append(helper.make_node(row["op"], row.get("in", []), row["out"], **attributes))
    return found


def _attribute(value: Any, tensors: recheck.Tensors) -> Any:
    if isinstance(value, dict) and "tensor" in value:
        name = value["tensor"]
        return numpy_helper.from_array(tensors.load(name).astype(_wide(tensors.entries[name]["dtype"])))
    if isinstance(value, dict):
        graph = value["graph"]
        given = [
            helper.make_tensor_value_info(r["value"], _CODES[_wide(r["dtype"])], None)
            for r in graph["inputs"]
        ]
        outs = [
            helper.make_tensor_value_info(r["value"], TensorProto.UNDEFINED, None) for r in graph["outputs"]
        ]
        return helper.make_graph(_nodes(graph, tensors), "body", given, outs, _constants(graph, tensors))
    return value
