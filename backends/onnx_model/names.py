"""Checks the names that an ONNX model has in common with its graph."""

from __future__ import annotations

from collections import Counter

from ...ir import BackendError, Graph, Parameter


def check_interface(graph: Graph, parameters: list[Parameter]) -> None:
    """Check that parameters and inputs can be told apart by name, as ONNX needs.

    Raises:
        BackendError: naming every collision.
    """
    counts = Counter(p.name for p in parameters)
    double = sorted(name for name, count in counts.items() if count > 1)
    if double:
        raise BackendError(
            "E602",
            f"expected one name a parameter, got {len(double)} name{'s' if len(double) > 1 else ''} "
            f"of several parameters: {', '.join(f'`{n}` ({counts[n]})' for n in double[:5])}",
            place=f"graph `{graph.name}`",
            hint="run the pass rename-parameters first",
        )
    if "" in counts:
        raise BackendError(
            "E602",
            "expected a name for every parameter, got an empty one",
            place=f"graph `{graph.name}`",
            hint="run the pass rename-parameters first",
        )
    both = sorted(counts.keys() & {n.name for n in graph.input_nodes()})
    if both:
        raise BackendError(
            "E602",
            f"expected inputs and parameters of different names, got `{both[0]}` for both",
            place=f"graph `{graph.name}`",
            hint="rename the input or the parameter",
        )
