"""Counts the operators in an ONNX file."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import onnx

from ...ir import ModelError


def count_nodes(path: Path) -> Counter[str]:
    """Return operator -> how many nodes of a file apply it, those of nested graphs included.

    Raises:
        ModelError: when the file cannot be read.
    """
    try:
        graphs = [onnx.load(path, load_external_data=False).graph]
    except (OSError, ValueError) as error:
        raise ModelError("E101", f"cannot read the ONNX model: {error}", place=str(path)) from error
    found: Counter[str] = Counter()
    while graphs:
        for node in graphs.pop().node:
            found[f"{node.domain}.{node.op_type}" if node.domain else node.op_type] += 1
            for attribute in node.attribute:
                graphs += [attribute.g] if attribute.type == onnx.AttributeProto.GRAPH else attribute.graphs
    return found
