"""Reads the Pad before a convolution or a pool as its own padding, and writes such a Pad for another net."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...ir import Graph, Operator, Value

MODES = {"constant": "zeros", "reflect": "reflect", "edge": "replicate", "wrap": "circular"}
"""ONNX's mode of a Pad -> the `padding_mode` of torch's convolutions."""


class Padding(NamedTuple):
    """The places that a Pad adds on the axes of a convolution.

    Attributes:
        mode: in torch's terms.
        pads: all begins before all ends.
    """

    mode: str
    pads: list[int]


def padding_before(graph: Graph, operator: Operator, rank: int, *, below: bool = False) -> Padding | None:
    """Return what a Pad adds right before a window of some rank; None without one.

    One that adds to other axes is none, and so is one of other numbers than 0, or where `below`, of
    numbers above it.

    MindSpore's convolution of one axis is one of two, whose first axis is added behind the Pad.
    """
    value = graph.operands(operator.key)[0]
    node = None if value is None else graph.node(value.node)
    while isinstance(node, Operator) and node.op_type == "Unsqueeze":
        value = graph.operands(node.key)[0]
        node = None if value is None else graph.node(value.node)
    if not isinstance(node, Operator) or node.op_type != "Pad" or node.domain:
        return None
    image, amounts, filling, axes = [*graph.operands(node.key), None, None][:4]
    type_ = None if image is None else graph.type_of(image)
    added = _numbers(graph, amounts)
    filled = 0 if filling is None else next(iter(_numbers(graph, filling) or ()), None)
    if type_ is None or type_.shape is None or added is None or filled is None:
        return None
    if filled > 0 or (filled < 0 and not below):
        return None
    size = len(type_.shape)
    where = _numbers(graph, axes) if axes is not None else list(range(size))
    if where is None or len(added) != 2 * len(where) or min(added, default=0) < 0:
        return None
    pairs = {axis % size: (added[i], added[len(where) + i]) for i, axis in enumerate(where)}
    spatial = range(2, size)
    if any(any(pair) for axis, pair in pairs.items() if axis not in spatial) or len(spatial) > rank:
        return None
    own = [(0, 0)] * (rank - len(spatial)) + [pairs.get(axis, (0, 0)) for axis in spatial]
    pads = [begin for begin, _ in own] + [end for _, end in own]
    return Padding(MODES[node.str("mode")], pads)


def _numbers(graph: Graph, value: Value | None) -> list[Any] | None:
    array = None if value is None else graph.constant_value(value)
    return None if array is None else np.asarray(array).reshape(-1).tolist()


def arguments_of_padding(
    framework: str, class_name: str, mode: str, pads: Sequence[int]
) -> tuple[tuple[str, str], ...]:
    """Return the arguments that give a convolution a mode of padding; empty where its class has none."""
    begins, ends = list(pads[: len(pads) // 2]), list(pads[len(pads) // 2 :])
    if framework != "torch" or not class_name.startswith("Conv") or begins != ends:
        return ()
    padding = str(begins[0]) if len(set(begins)) == 1 else f"({', '.join(map(str, begins))})"
    return (("padding", padding), ("padding_mode", f'"{mode}"'))


def call_behind_padding(framework: str, layer: str, mode: str, pads: Sequence[int]) -> str:
    """Return the call of a layer that pads nothing, with a Pad before it.

    Example:
        >>> call_behind_padding("mindspore", "self.conv", "reflect", [1, 2, 1, 2])
        'pad_mode="valid", padding=0, self.conv(ops.pad(x, (2, 2, 1, 1), mode="reflect"))'
    """
    half = len(pads) // 2
    pairs = reversed(list(zip(pads[:half], pads[half:], strict=True)))
    amounts = f"({', '.join(str(n) for pair in pairs for n in pair)})"
    if framework == "torch":
        return f'padding=0, {layer}(F.pad(x, {amounts}, mode="{mode}"))'
    padded = f'ops.pad(x, {amounts}, mode="{mode}")'
    if half == 3 and mode == "reflect":  # which MindSpore's function does on two axes at most
        padded = f"nn.ReflectionPad3d({amounts})(x)"
    return f'pad_mode="valid", padding=0, {layer}({padded})'
