"""Compares what every node of a source returned in its own framework with the lowered graph."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...ir import Graph, Parameter
from ..compare import compare
from ..conditioning import Cost, Rounding
from ..report import ModuleRow
from ..runners.onnx_runner import OnnxRunner
from .mxnet_runner import MXNetRunner


def compare_nodes(
    graph: Graph, source: MXNetRunner, inputs: Mapping[str, np.ndarray], threads: int | None = None
) -> list[ModuleRow]:
    """Return one row per output of a node that is a value of the graph, in the order of the run.

    The graph runs in ONNX Runtime, unoptimised, with those values as further outputs. As errors propagate,
    the first node that differs is the one that was lowered wrongly.

    Args:
        graph: the source's graph, before any pass.
        source: the source.
        inputs: what both run on.
        threads: number of threads for ONNX Runtime.
    """
    source.run(inputs, calls=True)
    found = {
        key: value
        for key, value in source.landmarks().items()
        if not isinstance(graph.node(value.node), Parameter)
    }
    values = list(dict.fromkeys(found.values()))
    if not values:
        return []  # nodes that give what they are given
    probed = graph.copy()
    probed.outputs = [(f"value{at}", value) for at, value in enumerate(values)]
    several = {name for name, output in found if output}
    rows: list[ModuleRow] = []
    runner = OnnxRunner(probed, threads=threads, optimised=False)
    try:
        run = runner.run(inputs, calls=False)
        ulp_tolerance = max(source.ulp_tolerance([]), runner.ulp_tolerance(graph.operators()))
        # what it does to the graph is what it would do in MXNet
        rounding = Rounding(runner, run, inputs, cost=Cost(ulp_tolerance))
        places = {value: at for at, value in enumerate(values)}
        for (name, output), value in found.items():
            at = places[value]
            compared = compare(source.nodes[name, output], run.outputs[at][1], rounding.output(at))
            rows.append(
                ModuleRow(
                    f"{name}[{output}]" if name in several else name,
                    source.operators[name],
                    compared.max_abs,
                    compared.max_rel,
                    compared.tolerance,
                    passed=compared.passed,
                    reason=compared.reason,
                )
            )
    finally:
        runner.close()
    return rows
