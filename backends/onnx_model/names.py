"""Names of ONNX values and nodes: unique across nested graphs, readable, deterministic."""

from __future__ import annotations

from collections import Counter

from ...ir import BackendError, Graph, Parameter


class Names:
    """Hands out unique names.

    Args:
        reserved: names that are spoken for: parameters, inputs and outputs of the root graph.
    """

    def __init__(self, reserved: set[str]) -> None:
        self._taken = set(reserved)
        self._next: dict[str, int] = {}

    def unique(self, wanted: str) -> str:
        """Return `wanted`, or `wanted` with the first free number where it is taken."""
        name = wanted
        while name in self._taken:
            self._next[wanted] = self._next.get(wanted, 1) + 1
            name = f"{wanted}_{self._next[wanted]}"
        self._taken.add(name)
        return name


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


def scope(call_name: str) -> str:
    """Return the prefix for values of a module call: ``layer1.0#1`` -> ``layer1.0/``; empty for the root."""
    path, _, number = call_name.rpartition("#")
    if number != "1" and path:
        return f"{path}#{number}/"
    return f"{path}/" if path else ""
