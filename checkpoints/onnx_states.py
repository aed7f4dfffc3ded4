"""The parameters of an .onnx file, under the names that the module had where torch's exporter states them."""

from __future__ import annotations

from pathlib import Path

from ..formats.onnx_file import read_onnx, read_without_weights
from ..ir import TensorData


def read_onnx_state(path: Path) -> dict[str, TensorData]:
    """Return the initializers of a model's graph; for a file of torch's exporter, the state of the module.

    Raises:
        ModelError: when the file is missing, truncated or malformed, with the byte at fault.
    """
    from ..frontends.onnx_model.torch_exporter import undo_optimisations

    tensors = read_onnx(path)
    traced = undo_optimisations(read_without_weights(path), tensors)
    if traced is None:
        return tensors
    read = {name for node in traced.model.graph.node for name in node.input}
    names = [name for name in traced.stored if name in read and name not in traced.made]
    if traced.weights is not None:
        names = [name for name in names if name in traced.weights]
    found = {name: traced.stored[name] for name in names}
    return found | {other: found[name] for other, name in traced.aliases.items() if name in found}
