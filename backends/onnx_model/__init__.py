"""Emits a graph as an ONNX model: opset 23, parameters by name, module scopes in the metadata."""

from __future__ import annotations

from .in_place import InPlace
from .lowering import LOWERING
from .model import CALLS, NODE_CALL, NODE_CLASS, to_model
from .writing import EXTERNAL_LIMIT, earlier_files, write

__all__ = [
    "CALLS",
    "EXTERNAL_LIMIT",
    "LOWERING",
    "NODE_CALL",
    "NODE_CLASS",
    "InPlace",
    "earlier_files",
    "to_model",
    "write",
]
