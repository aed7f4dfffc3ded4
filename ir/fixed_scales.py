"""Scales that MXNet's BatchNorm counts as 1 (``fix_gamma``), in a graph that was read."""

from __future__ import annotations

from .graph import Graph
from .nodes import Parameter


def is_fixed_scale(graph: Graph, parameter: Parameter) -> bool:
    """Whether a parameter is a scale that MXNet counts as 1: the only one that is read as frozen.

    A graph that was written by hand names no framework; a frozen gamma of MindSpore's scales as it stands.
    """
    frozen = not parameter.trainable and not parameter.is_buffer
    return graph.origin.framework in ("mxnet", "") and parameter.role == "gamma" and frozen
