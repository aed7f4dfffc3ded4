"""Runs a flat source in ONNX Runtime, recording the modules that a pass made of its parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ...backends.onnx_model.boundaries import call_boundaries
from ...ir import Graph, Value
from .onnx_runner import OnnxRunner
from .runs import CallRecord, Run


@dataclass(frozen=True, slots=True)
class _Part:
    """The part of the source that is one call of a module: the values at its edges."""

    class_name: str
    inputs: list[Value]
    outputs: list[Value]


class GroupedRunner(OnnxRunner):
    """A source without modules of its own in ONNX Runtime, without optimisations.

    Its calls are those of the source and those of the modules that only the other graph has. Values at the
    edges of the latter are further outputs of the source. A module is left out if a pass made the values at
    its edges.

    Args:
        source: the source's graph.
        grouped: the same graph after a pass gave it modules; its operators have the keys of the source's.

    Attributes:
        made: the calls that the source does not have.
    """

    def __init__(self, source: Graph, grouped: Graph) -> None:
        self._parts = _find_parts(source, grouped)
        self._edges = list(
            dict.fromkeys(v for part in self._parts.values() for v in [*part.inputs, *part.outputs])
        )
        self.made = frozenset(self._parts)
        probed = source.copy()
        probed.outputs += [(f"edge{at}", value) for at, value in enumerate(self._edges)]
        super().__init__(probed, optimised=False)

    def run(self, inputs: Mapping[str, np.ndarray], *, calls: bool = True) -> Run:
        """Run the source; see `Runner`."""
        run = super().run(inputs, calls=calls)
        own = len(run.outputs) - len(self._edges)
        arrays = [array for _, array in run.outputs[own:]]
        values = dict(zip(self._edges, arrays, strict=True))
        records = {
            call: CallRecord(
                part.class_name, [values[v] for v in part.inputs], [values[v] for v in part.outputs]
            )
            for call, part in self._parts.items()
        }
        return Run(run.outputs[:own], {**run.calls, **(records if calls else {})})


def _find_parts(source: Graph, grouped: Graph) -> dict[str, _Part]:
    """Return call -> its part of the source, for the modules that only passes made."""
    tree, names = grouped.modules, grouped.modules.call_names()
    known = grouped.provenance.modules if grouped.provenance is not None else {}
    return {
        names[key]: _Part(tree.module(tree.call(key).module).class_name, inputs, outputs)
        for key, (inputs, outputs) in call_boundaries(grouped).items()
        if tree.call(key).module not in known and all(v.node in source for v in [*inputs, *outputs])
    }
