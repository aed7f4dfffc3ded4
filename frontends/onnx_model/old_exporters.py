"""What old exporters wrote and did not mean, where what is meant is plain."""

from __future__ import annotations

import onnx

MXNET = "mxnet_converted_model"
"""The name that MXNet's exporter gives to every graph."""


def mend(proto: onnx.ModelProto) -> tuple[onnx.ModelProto, list[str]]:
    """Return a model as its exporter means it, and notes of what was changed: none, and the model itself.

    MXNet's exporter wrote ``spatial=0`` on every BatchNormalization, with statistics of channels: those of
    each element, which that stands for, have the axes of an element.
    """
    sizes = {t.name: len(t.dims) for t in proto.graph.initializer}
    at = [n for n, node in enumerate(proto.graph.node) if _is_of_channels(node, sizes)]
    if not at:
        return proto, []
    mended = onnx.ModelProto()
    mended.CopyFrom(proto)
    for number in at:
        node = mended.graph.node[number]
        kept = [a for a in node.attribute if a.name != "spatial"]
        del node.attribute[:]
        node.attribute.extend(kept)
    first = proto.graph.node[at[0]]
    name, count = first.name or first.output[0], len(at)
    return mended, [
        f"BatchNormalization with spatial=0 is read as spatial=1, as its statistics are of channels: "
        f"{count}, the first is `{name}`"
    ]


def _is_of_channels(node: onnx.NodeProto, sizes: dict[str, int]) -> bool:
    """Whether a node says that its statistics are of elements, and has those of channels."""
    if node.op_type != "BatchNormalization" or any(sizes.get(name) != 1 for name in node.input[1:5]):
        return False
    return any(a.name == "spatial" and a.i == 0 for a in node.attribute)
