"""Adds rounding errors to sums of products in an ONNX model, element by element."""

from __future__ import annotations

import copy

import numpy as np
import onnx

from ...ir import NO_TRAITS
from ...ir.traits import CLASSIFIED
from ..conditioning import Change


def round_products(model: onnx.ModelProto, change: Change | None) -> None:
    """Make float32 sums of products as far off, element by element, as their own rounding may be.

    Every float32 result of a `heavy` operator is changed.

    Changing weights would not do: it shifts a plane of equal inputs as a whole, which a normalisation behind
    it removes. The sine of an element's place gives its error, because ONNX Runtime has no random numbers in
    opset 23.
    """
    if change is None:
        return
    constants = {
        "flat": np.array([-1], np.int64),
        "pace": np.float32(12.9898),
        "phase": np.float32(change.seed),
        "unit": np.float32(change.ulps * 2.0**-23),
    }
    at = {name: f"rounding/{name}" for name in constants}
    elsewhere = {
        i.name
        for i in (*model.graph.value_info, *model.graph.output)
        if i.type.tensor_type.elem_type != onnx.TensorProto.FLOAT
    }
    one = onnx.helper.make_tensor("one", onnx.TensorProto.INT64, [1], [1])
    nodes: list[onnx.NodeProto] = []
    for node in map(copy.deepcopy, model.graph.node):
        nodes.append(node)
        name = node.output[0]
        if not CLASSIFIED.get(node.op_type, NO_TRAITS).heavy or node.domain or name in elsewhere:
            continue
        steps = [
            ("Shape", ["plain"], "shape", {}),
            ("ConstantOfShape", ["shape"], "ones", {"value": one}),
            ("Reshape", ["ones", at["flat"]], "row", {}),
            ("NonZero", ["row"], "places", {}),  # a Range, which files before opset 11 do not have
            ("Reshape", ["places", at["flat"]], "counted", {}),
            ("Cast", ["counted"], "numbers", {"to": onnx.TensorProto.FLOAT}),
            ("Mul", ["numbers", at["pace"]], "paced", {}),
            ("Add", ["paced", at["phase"]], "angles", {}),
            ("Sin", ["angles"], "signs", {}),
            ("Mul", ["signs", at["unit"]], "units", {}),
            ("Reshape", ["units", "shape"], "relative", {}),
            ("Mul", ["plain", "relative"], "off", {}),
            ("Add", ["plain", "off"], "", {}),
        ]
        node.output[0] = f"{name}/plain"
        for op, operands, result, attributes in steps:
            inputs = [o if o in at.values() else f"{name}/{o}" for o in operands]
            output = f"{name}/{result}" if result else name
            nodes.append(onnx.helper.make_node(op, inputs, [output], **attributes))
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(np.asarray(value), at[name]) for name, value in constants.items()
    )
