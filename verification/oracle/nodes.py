"""Compares what every node of a source gave in its own framework with the graph that it was lowered to."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...ir import Graph, Parameter
from ..compare import compare
from ..report import ModuleRow
from ..runners.onnx_runner import OnnxRunner
from .mxnet_runner import MXNetRunner


def compare_nodes(
    graph: Graph, source: MXNetRunner, inputs: Mapping[str, np.ndarray], threads: int | None = None
) -> list[ModuleRow]:
    """One row per output of a node that is a value of the graph, in the order of the run.

    The graph runs in ONNX Runtime, unoptimised, with those values as further outputs. An error travels on:
    the first node that differs is the one that was lowered wrongly.

    Args:
        graph: the source's graph, before any pass.
        source: the source.
        inputs: what both run on.
        threads: for ONNX Runtime.
    """
    source.run(inputs, calls=True)
    found = {
        key: value
        for key, value in source.landmarks().items()
        if not isinstance(graph.node(value.node), Parameter)
    }
    values = list(dict.fromkeys(found.values()))
    probed = graph.copy()
    probed.outputs = [(f"value{at}", value) for at, value in enumerate(values)]
    runner = OnnxRunner(probed, threads=threads, optimised=False)
    try:
        arrays = dict(zip(values, (a for _, a in runner.run(inputs, calls=False).outputs), strict=True))
    finally:
        runner.close()
    slack = max(source.slack(frozenset()), runner.slack({o.op_type for o in graph.operators()}))
    rows: list[ModuleRow] = []
    several = {name for name, output in found if output}
    for (name, output), value in found.items():
        compared = compare(source.nodes[name, output], arrays[value], ulps=slack)
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
    return rows
