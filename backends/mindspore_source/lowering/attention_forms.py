"""Forms of attention that MindSpore's layer computes as other frameworks' layers do."""

from __future__ import annotations

import numpy as np

from ....ir import Graph, Operator, Parameter, Value
from ....ir.composites.multihead import INPUTS


def computes_alike(graph: Graph, operator: Operator) -> bool:
    """Whether MindSpore's layer computes what an attention of another framework does, for every input."""
    if graph.origin.framework == "mindspore":
        return True
    operands = dict(zip(INPUTS, graph.operands(operator.key), strict=False))
    masks = [v for n in ("key_padding_mask", "attn_mask") if (v := operands.get(n)) is not None]
    if len({graph.known_type(m).dtype for m in masks}) > 1:
        return False  # MindSpore adds a mask of truth values to one of numbers as ones
    if operands.get("bias_k") is not None or operator.int("add_zero_attn"):
        return True
    # where all keys of a query are hidden, MindSpore's softmax spoils the queries beside it, on CPU
    return not masks or (len(masks) == 1 and _hides_no_row(graph, masks[0]))


def _hides_no_row(graph: Graph, mask: Value) -> bool:
    node = graph.node(mask.node)
    buffer = isinstance(node, Parameter) and node.is_buffer
    array = node.data.numpy() if isinstance(node, Parameter) and buffer else graph.constant_value(mask)
    if array is None:
        return False
    hidden = array if array.dtype == np.bool_ else array == -np.inf
    return not hidden.all(axis=-1).any()
