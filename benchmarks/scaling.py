"""Time and memory an operator of the default pipeline, on synthetic graphs of growing size."""

from __future__ import annotations

import gc
import tracemalloc

import numpy as np
from measuring import cpu_seconds

from regraft import rewrite
from regraft.ir import Builder, Graph, Parameter, TensorData, TensorType, Value


def chain(operators: int) -> Graph:
    """Convolutions with one weight, and activations, in one call of one module."""
    graph = Graph()
    root = graph.modules.add("Chain")
    builder = Builder(graph, call=graph.modules.add_call(root))
    weight = _parameter(graph, root, "w", np.ones((4, 4, 1, 1), np.float32))
    x = graph.add_input("x", TensorType("float32", ("N", 4, 8, 8)))
    for at in range(operators):
        x = builder.op("Conv", x, weight) if at % 2 else builder.op("Relu", x)
    graph.outputs.append(("y", x))
    return graph


def blocks(operators: int) -> Graph:
    """Modules of ten operators with weights, constants and calls of their own, named otherwise than held."""
    graph = Graph()
    tree, random = graph.modules, np.random.default_rng(0)
    root = tree.add("Net")
    run = tree.add_call(root)
    b = Builder(graph)
    x = graph.add_input("x", TensorType("float32", ("N", 4, 8, 8)))
    for at in range(operators // 10):
        block = tree.add("Block", root, f"block{at}")
        conv, norm = tree.add("Conv2d", block, "conv"), tree.add("BatchNorm2d", block, "norm")
        call = tree.add_call(block, run)
        weight = _parameter(graph, conv, "weight", random.standard_normal((4, 4, 3, 3)).astype(np.float32))
        names = ("weight", "bias", "running_mean", "running_var")
        scale, bias, *state = (_parameter(graph, norm, n, np.ones(4, np.float32)) for n in names)
        with b.inside(tree.add_call(conv, call)):
            y = b.op("Conv", x, weight, pads=[1, 1, 1, 1])
        with b.inside(tree.add_call(norm, call)):
            y = b.op("BatchNormalization", y, scale, bias, *state)
        with b.inside(call):
            y = b.op("Mul", b.op("Relu", y), b.constant(0.5))
            z = b.op("LayerNormalization", b.op("Transpose", y, perm=[0, 2, 3, 1]), scale, bias)
            z = b.op("Sigmoid", b.op("Transpose", z, perm=[0, 3, 1, 2]))
            x = b.op("Add", b.op("Mul", z, y), x)
    graph.outputs.append(("y", x))
    return graph


def _parameter(graph: Graph, module: int, name: str, array: np.ndarray) -> Value:
    value = graph.add_parameter(Parameter(f"p{len(graph)}", f"p{len(graph)}", TensorData.of(array)))
    graph.modules.module(module).parameters[name] = value.node
    return value


def run(sizes: list[int], repeat: int) -> None:
    """Print one line a graph: best of `repeat` runs, and the memory that the rewritten graph takes."""
    print("default pipeline on synthetic graphs: CPU microseconds and bytes an operator, validation included")
    for make in (chain, blocks):
        for operators in sizes:
            graph = make(operators)
            seconds: list[float] = []
            for _ in range(repeat):
                start = cpu_seconds()
                rewrite(graph)
                seconds.append(cpu_seconds() - start)
            gc.collect()
            tracemalloc.start()
            rewritten = rewrite(graph)
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            print(
                f"  {make.__name__:7} {operators:7} operators {min(seconds) / operators * 1e6:7.1f} us "
                f"{peak / operators:6.0f} B   {len(rewritten.changes)} changes",
                flush=True,
            )
