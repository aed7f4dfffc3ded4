"""Chooses the runtime for a source and for a target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx

from ...frontends import refuse_folder
from ...ir import Graph, Parameter, TensorData, UsageError
from .onnx_runner import OnnxRunner
from .paired_runner import PairedRunner
from .registry import RUNTIMES, Runtime, file_runner, runtime_of_framework, runtime_of_output
from .runs import Fusing, ModelRunner, Runner

Target = Graph | onnx.ModelProto | Path | str
"""Targets that a source can be compared with."""


def own_runner(graph: Graph, threads: int | None = None) -> Runner:
    """Return a runner of the model behind a graph in its own framework, else of the graph in ONNX Runtime."""
    runtime = _find_live_runtime(graph)
    if runtime is not None:
        return runtime.load().model_runner(graph)
    if graph.origin.trusted and _has_its_inputs(graph):
        return file_runner(graph)
    # without ONNX Runtime's optimisations, as then the target is: both sides by what the standard defines
    return OnnxRunner(graph, threads=threads, optimised=False)


def exact_runner(graph: Graph) -> Runner | None:
    """Return a runner of the source in float64, where its framework can and it is cheap."""
    runtime = _find_live_runtime(graph)
    return None if runtime is None or not runtime.is_exact else runtime.load().exact_runner(graph)


def is_fusing(runner: Runner) -> bool:
    """Whether a runner's runtime is one that fuses operators, whether or not it does so now."""
    return isinstance(runner, Fusing)


def _find_live_runtime(graph: Graph) -> Runtime | None:
    """Return the runtime for the model behind a graph; None if only the graph can be run.

    A pass may have added inputs (a siamese twin): then the live model is not what the graph computes.
    """
    origin = graph.origin
    if origin.model is None or isinstance(origin.model, (str, Path)):
        return None
    return runtime_of_framework(origin.framework) if _has_its_inputs(graph) else None


def _has_its_inputs(graph: Graph) -> bool:
    given = graph.origin.inputs
    return not given or set(given) == {node.name for node in graph.input_nodes()}


def can_train(source: Graph) -> bool:
    """Whether a source can be trained here: its live model, in its own framework."""
    runtime = _find_live_runtime(source)
    return runtime is not None and runtime.trains


def refuse_training(source: Graph, target: Target, *, own: bool) -> None:
    """Refuse a side that only infers.

    Raises:
        UsageError: for a source without its live model, and for a target that ONNX Runtime would run.
    """
    models = " or ".join(row.model for row in RUNTIMES if row.model and row.trains)
    if not can_train(source):
        raise UsageError(
            "E001",
            f"expected a source that can train, got {source.origin.reference or 'a graph'}: its framework "
            f"or its model is not available",
            hint=f"a training step needs {models} as the source",
        )
    written = runtime_of_output(Path(target)) if isinstance(target, (str, Path)) else None
    live = isinstance(target, Graph) and own and can_train(target)
    if not live and (written is None or not written.trains):
        outputs = " or ".join(dict.fromkeys(row.output for row in RUNTIMES if row.output and row.trains))
        raise UsageError(
            "E001",
            "expected a target that can train, got "
            + (f"`{target}`" if isinstance(target, (str, Path)) else "a graph")
            + ": ONNX is inference only here",
            hint=f"compare training with {outputs}, or with {models}",
        )


def paired_runner(
    graph: Graph,
    values: Mapping[str, np.ndarray],
    modules: Mapping[str, str],
    threads: int | None = None,
    order: Sequence[int] = (),
) -> Runner:
    """Return a runner of a target's own model, with other values, under the source's names of modules.

    Args:
        graph: the target's graph.
        values: name of a parameter -> its values until the runner is closed.
        modules: path of a module in the source -> in the target.
        threads: number of threads for ONNX Runtime.
        order: place in the target of each output of the source; none where they are in one order.
    """
    runtime = _find_live_runtime(graph)
    if runtime is None:
        graph = with_values(graph, values)
        return PairedRunner(own_runner(graph, threads), modules, integers_of(graph), order)
    runner: ModelRunner = runtime.load().model_runner(graph)
    runner.fill(values)
    return PairedRunner(runner, modules, integers_of(graph), order)


def with_values(graph: Graph, values: Mapping[str, np.ndarray]) -> Graph:
    """Return a copy of a graph whose parameters have other values, by their names."""
    graph = graph.copy()
    paths = graph.parameter_paths()
    for parameter in graph.parameters():
        names = paths.get(parameter.key, [parameter.declared])
        found = next((values[n] for n in names if n in values), None)
        if found is not None and not (graph.origin.trusted and _holds(parameter, found)):
            parameter.data = TensorData.of(found)
            graph.origin.trusted = False  # the file has its own values
    return graph


def _holds(parameter: Parameter, values: np.ndarray) -> bool:
    """Whether a parameter has these values already."""
    own = parameter.data.numpy()
    return own.dtype == values.dtype and np.array_equal(own, values, equal_nan=own.dtype.kind == "f")


def integers_of(graph: Graph) -> list[str | None]:
    """Return the integer type of each input of a graph, in order; None for those of other types."""
    types = [node.type.dtype for node in graph.input_nodes()]
    return [dtype if dtype in ("int32", "int64") else None for dtype in types]


def target_runner(target: Target, *, threads: int | None = None, optimised: bool = True) -> Runner:
    """Return a runner of a target.

    Args:
        target: a graph, an ONNX model, or the path of what a target wrote.
        threads: number of threads for ONNX Runtime.
        optimised: whether ONNX Runtime may fuse and fold, as it does for its users.

    Raises:
        UsageError: for a path at which no target wrote what a runtime here runs.
    """
    if isinstance(target, (Graph, onnx.ModelProto)):
        return OnnxRunner(target, threads=threads, optimised=optimised)
    path = Path(target)
    runtime = runtime_of_output(path)
    if runtime is not None:
        return runtime.load_for_outputs().output_runner(path, threads, optimised=optimised)
    if path.is_dir():
        refuse_folder(str(path))
    outputs = " or ".join(dict.fromkeys(row.output for row in reversed(RUNTIMES) if row.output))
    raise UsageError(
        "E001",
        f"expected {outputs} as target, got `{path}`",
        hint="a model of another framework is loaded first: regraft.verify(source, regraft.load(target))",
    )
