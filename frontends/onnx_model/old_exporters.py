"""Corrects the known mistakes of old exporters where their intention is plain."""

from __future__ import annotations

import onnx

MXNET = "mxnet_converted_model"
"""The name that MXNet's exporter gives to every graph."""


def mend(proto: onnx.ModelProto) -> tuple[onnx.ModelProto, list[str]]:
    """Return a model as its exporter means it, and notes of what was changed: none, and the model itself.

    MXNet's exporter wrote ``spatial=0`` on every BatchNormalization, with statistics of channels: those of
    each element, which that stands for, have the axes of an element. Several wrote shapes as int32, where
    an operator takes int64 alone.
    """
    sizes = {t.name: len(t.dims) for t in proto.graph.initializer}
    channels = [n for n, node in enumerate(proto.graph.node) if _is_of_channels(node, sizes)]
    narrow = _narrow_operands(proto)
    if not channels and not narrow:
        return proto, []
    mended = onnx.ModelProto()
    mended.CopyFrom(proto)
    notes: list[str] = []
    for number in channels:
        node = mended.graph.node[number]
        kept = [a for a in node.attribute if a.name != "spatial"]
        del node.attribute[:]
        node.attribute.extend(kept)
    if channels:
        notes.append(
            f"BatchNormalization with spatial=0 is read as spatial=1, because it has one statistic per "
            f"channel: "
            f"{len(channels)}, the first is `{_called(proto.graph.node[channels[0]])}`"
        )
    if narrow:
        _widen(mended.graph, narrow)
        number, slot = narrow[0]
        node = proto.graph.node[number]
        notes.append(
            f"int32 is read as int64 where an operator takes int64 alone: {len(narrow)}, the first is "
            f"`{node.input[slot]}` of `{_called(node)}`"
        )
    return mended, notes


def _called(node: onnx.NodeProto) -> str:
    return node.name or node.output[0]


def _narrow_operands(proto: onnx.ModelProto) -> list[tuple[int, int]]:
    """Return (node, slot) of operands that are int32 where the operator's only type is int64."""
    version = next((o.version for o in proto.opset_import if o.domain in ("", "ai.onnx")), 1)
    narrow = {t.name for t in proto.graph.initializer if t.data_type == onnx.TensorProto.INT32}
    inputs = (i for i in proto.graph.input if i.type.tensor_type.elem_type == onnx.TensorProto.INT32)
    narrow |= {i.name for i in inputs}
    found: list[tuple[int, int]] = []
    for number, node in enumerate(proto.graph.node):
        if any(_makes_int32(a) for a in node.attribute) and node.op_type in ("Cast", "Constant"):
            narrow.add(node.output[0])
        taken = [slot for slot, name in enumerate(node.input) if name in narrow]
        if taken and node.domain in ("", "ai.onnx"):
            found += [(number, slot) for slot in taken if _takes_int64_alone(node.op_type, slot, version)]
    return found


def _makes_int32(attribute: onnx.AttributeProto) -> bool:
    if attribute.name == "to":
        return attribute.i == onnx.TensorProto.INT32
    return attribute.name == "value" and attribute.t.data_type == onnx.TensorProto.INT32


def _takes_int64_alone(operator: str, slot: int, version: int) -> bool:
    try:
        formals = onnx.defs.get_schema(operator, version).inputs
    except onnx.defs.SchemaError:
        return False
    return slot < len(formals) and set(formals[slot].types) == {"tensor(int64)"}


def _widen(graph: onnx.GraphProto, operands: list[tuple[int, int]]) -> None:
    """Put a Cast before operands, given as (node, slot) in order."""
    taken = {name for node in graph.node for name in (*node.input, *node.output)}
    for number, slot in reversed(operands):
        node = graph.node[number]
        name = f"{node.input[slot]}_int64_{number}_{slot}"
        while name in taken:
            name += "_"
        cast = onnx.helper.make_node("Cast", [node.input[slot]], [name], to=onnx.TensorProto.INT64)
        node.input[slot] = name
        graph.node.insert(number, cast)


def _is_of_channels(node: onnx.NodeProto, sizes: dict[str, int]) -> bool:
    """Whether a node says that its statistics are of elements, and has those of channels."""
    if node.op_type != "BatchNormalization" or any(sizes.get(name) != 1 for name in node.input[1:5]):
        return False
    return any(a.name == "spatial" and a.i == 0 for a in node.attribute)
