"""Finds the difference of two graphs: modules, operators, parameters, inputs and outputs."""

from __future__ import annotations

from .comparing import compare_graphs
from .result import Facet, GraphDifference, ModuleRow, OperatorRow, PortRow, TensorRow

__all__ = [
    "Facet",
    "GraphDifference",
    "ModuleRow",
    "OperatorRow",
    "PortRow",
    "TensorRow",
    "compare_graphs",
]
