"""Adds rounding errors to sums of products and results of coarse kernels in an ONNX model."""

from __future__ import annotations

import copy

import numpy as np
import onnx

from ...ir import NO_TRAITS
from ...ir.traits import CLASSIFIED
from ..conditioning import Change
from .runs import KernelError, KernelErrors

KERNEL_ERRORS: KernelErrors = {
    "aten.expm1": KernelError(absolute=1.0),
    "aten.glu": KernelError(scaled=1.5),
    "aten.log1p": KernelError(absolute=1.0),
    "aten.mean": KernelError(summed=0.25),
    "aten.sigmoid": KernelError(absolute=1.5),
    "aten.silu": KernelError(scaled=1.5),
    "aten.sum": KernelError(summed=0.25),
}
"""Errors of ONNX Runtime's kernels on the CPU, as far as a target may be off by four times as much.

Its Sigmoid is off by 1.5 units of 1 however small the result: it gives 9e-8 for 1.6e-8, and 0 below -18.
``Exp(x) - 1`` and ``Log(x + 1)``, which ONNX has for expm1 and log1p, are off by a unit of 1.

The mean of normal values around 0 is off by 0.1 to 0.2 units of their mean size, whatever their number.
Around 3, it is off by 1.6 units for a thousand values, 3.6 for ten thousand, 33 for a million (torch: 1)."""


_PLAIN = KernelError(relative=1.0)
"""The error of a sum of products."""

_OURS = "rounding/"
"""Prefix of the names of added constants."""


def error_of(operator: str, errors: KernelErrors) -> KernelError | None:
    """Return the error that kernels have of a type of operator of ONNX; None without one."""
    return errors.get(f"aten.{operator.lower()}")


def is_rounded(node: onnx.NodeProto, errors: KernelErrors = KERNEL_ERRORS) -> bool:
    """Whether `round_results` changes what a node gives in float32."""
    heavy = CLASSIFIED.get(node.op_type, NO_TRAITS).heavy
    return not node.domain and (heavy or error_of(node.op_type, errors) is not None)


def round_results(
    model: onnx.ModelProto, change: Change | None, errors: KernelErrors = KERNEL_ERRORS
) -> None:
    """Make float32 sums of products as far off, element by element, as their own rounding may be.

    Every float32 result of a `heavy` operator is changed, and that of a coarse kernel by its error.

    Changing weights would not do: it shifts a plane of equal inputs as a whole, which a normalisation behind
    it removes. The sine of an element's place gives its error, because ONNX Runtime has no random numbers in
    opset 23.

    Args:
        model: the model, which is changed.
        change: what rounds a weight; None for no change.
        errors: of coarse kernels, of this runtime or of the other one.
    """
    if change is None:
        return
    constants = {
        "flat": np.array([-1], np.int64),
        "pace": np.float32(12.9898),
        "phase": np.float32(change.seed),
        "unit": np.float32(change.ulps * 2.0**-23),
    }
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
        if not is_rounded(node, errors) or name in elsewhere:
            continue
        error = error_of(node.op_type, errors) or _PLAIN
        for part in ("relative", "absolute"):
            constants[f"{node.op_type}/{part}"] = np.float32(getattr(error, part))
        steps = [
            ("Shape", ["plain"], "shape", {}),
            ("ConstantOfShape", ["shape"], "ones", {"value": one}),
            ("Reshape", ["ones", f"{_OURS}flat"], "row", {}),
            ("NonZero", ["row"], "places", {}),  # a Range, which files before opset 11 do not have
            ("Reshape", ["places", f"{_OURS}flat"], "counted", {}),
            ("Cast", ["counted"], "numbers", {"to": onnx.TensorProto.FLOAT}),
            ("Mul", ["numbers", f"{_OURS}pace"], "paced", {}),
            ("Add", ["paced", f"{_OURS}phase"], "angles", {}),
            ("Sin", ["angles"], "signs", {}),
            ("Mul", ["signs", f"{_OURS}unit"], "units", {}),
            ("Reshape", ["units", "shape"], "relative", {}),
            ("Mul", ["plain", f"{_OURS}{node.op_type}/relative"], "own", {}),
            ("Add", ["own", f"{_OURS}{node.op_type}/absolute"], "reach", {}),
            ("Mul", ["reach", "relative"], "off", {}),
            ("Add", ["plain", "off"], "", {}),
        ]
        node.output[0] = f"{name}/plain"
        for op, operands, result, attributes in steps:
            inputs = [o if o.startswith(_OURS) else f"{name}/{o}" for o in operands]
            output = f"{name}/{result}" if result else name
            nodes.append(onnx.helper.make_node(op, inputs, [output], **attributes))
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(np.asarray(value), f"{_OURS}{name}") for name, value in constants.items()
    )
