"""Operands that say how an operator computes, not what with: axes, shapes, counts."""

from __future__ import annotations

from ..graph import Graph
from ..nodes import Input, Operator

_REDUCTIONS = (
    *("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin"),
    *("ReduceProd", "ReduceSum", "ReduceSumSquare"),
)

SETTINGS: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(_REDUCTIONS, (1,)),
    **dict.fromkeys(("Squeeze", "Unsqueeze", "Split", "Reshape", "Expand", "Tile", "TopK", "CumSum"), (1,)),
    **dict.fromkeys(("CumProd", "CenterCropPad", "AffineGrid", "OneHot", "Trilu"), (1,)),
    **dict.fromkeys(("ConstantOfShape", "BlackmanWindow", "HammingWindow", "HannWindow"), (0,)),
    **dict.fromkeys(("Col2Im", "DFT"), (1, 2)),
    "Slice": (1, 2, 3, 4),
    "Pad": (1, 3),
    "Resize": (1, 2, 3),
    "Upsample": (1,),
    "Range": (0, 1, 2),
    "NonMaxSuppression": (2, 3, 4),
    "MaxUnpool": (2,),
    "STFT": (1, 3),
    "MelWeightMatrix": (0, 1, 2, 3, 4),
    "Dropout": (1, 2),
}
"""Operator of ONNX -> its operands that are settings."""


def unknown_settings(graph: Graph, operator: Operator) -> list[str]:
    """Return the names of an operator's settings that only a run computes."""
    formals = operator.signature.inputs if not operator.domain else ()
    return [formals[slot].name for slot in _unknown_slots(graph, operator)]


def inputs_as_settings(graph: Graph, operator: Operator) -> list[str]:
    """Return the names of the graph's inputs that are settings of an operator."""
    operands = graph.operands(operator.key)
    nodes = [graph.producer(v) for s in _unknown_slots(graph, operator) if (v := operands[s]) is not None]
    return [node.name for node in nodes if isinstance(node, Input)]


def _unknown_slots(graph: Graph, operator: Operator) -> list[int]:
    if operator.domain:
        return []
    operands = graph.operands(operator.key)
    return [
        slot
        for slot in SETTINGS.get(operator.op_type, ())
        if slot < len(operands)
        and operands[slot] is not None
        and graph.constant_value(operands[slot]) is None
    ]
