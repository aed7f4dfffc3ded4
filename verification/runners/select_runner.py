"""Chooses the runtime for a source and for a target."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx

from ...ir import Graph, TensorData, UsageError
from .onnx_runner import OnnxRunner
from .paired_runner import PairedRunner
from .runs import Runner

Target = Graph | onnx.ModelProto | Path | str
"""What a source may be compared with."""


def own_runner(graph: Graph, threads: int | None = None) -> Runner:
    """The model a graph came from, in its own framework; the graph in ONNX Runtime where there is none."""
    framework = _live(graph)
    if framework == "torch":
        from .torch_runner import TorchRunner

        return TorchRunner(graph)
    if framework == "mindspore":
        from .mindspore_runner import MindSporeRunner

        return MindSporeRunner.of_graph(graph)
    # without ONNX Runtime's optimisations, so that a wrong fusion in the target does not go unseen
    return OnnxRunner(graph, threads=threads, optimised=False)


def exact_runner(graph: Graph) -> Runner | None:
    """The source in float64, where its framework can and it is cheap."""
    if _live(graph) != "torch":
        return None
    from .torch_runner import double_copy

    return double_copy(graph)


def _live(graph: Graph) -> str:
    """The framework that can run the model behind a graph; "" where the graph alone stands for it.

    A pass may have added inputs (a siamese twin): then the live model is not what the graph computes.
    """
    origin = graph.origin
    if origin.model is None or isinstance(origin.model, (str, Path)):
        return ""
    same = not origin.inputs or set(origin.inputs) == {node.name for node in graph.input_nodes()}
    return origin.framework if same else ""


def can_train(source: Graph) -> bool:
    """Whether a source can be trained here: its live model, in its own framework."""
    return bool(_live(source))


def refuse_training(source: Graph, target: Target, *, own: bool) -> None:
    """Refuse a side that only infers.

    Raises:
        UsageError: for a source without its live model, and for a target that ONNX Runtime would run.
    """
    if not can_train(source):
        raise UsageError(
            "E001",
            f"expected a source that can train, got {source.origin.reference or 'a graph'}: its framework or "
            "its model is not at hand",
            hint="a training step needs a PyTorch module or a MindSpore Cell as the source",
        )
    emitted = isinstance(target, (str, Path)) and (Path(target) / "model.py").exists()
    live = isinstance(target, Graph) and own and bool(_live(target))
    if not emitted and not live:
        raise UsageError(
            "E001",
            "expected a target that can train, got "
            + (f"`{target}`" if isinstance(target, (str, Path)) else "a graph")
            + ": ONNX is inference only here",
            hint="compare training with an emitted MindSpore directory, or with a PyTorch or MindSpore model",
        )


def paired_runner(
    graph: Graph, values: Mapping[str, np.ndarray], modules: Mapping[str, str], threads: int | None = None
) -> Runner:
    """A target's own model, with other values until it is closed, under the source's names of modules.

    Args:
        graph: the target's graph.
        values: name of a parameter -> its values.
        modules: path of a module in the source -> in the target.
        threads: for ONNX Runtime.
    """
    if not _live(graph):
        graph = graph.copy()
        for parameter in graph.parameters():
            names = graph.parameter_paths().get(parameter.key, [parameter.declared])
            found = next((values[n] for n in names if n in values), None)
            if found is not None:
                parameter.data = TensorData.of(found)
        return PairedRunner(own_runner(graph, threads), modules)
    runner = own_runner(graph, threads)
    runner.fill(values)  # type: ignore[attr-defined] - the frameworks' own runners can
    return PairedRunner(runner, modules)


def target_runner(target: Target, *, threads: int | None = None) -> Runner:
    """A runner of a target.

    Args:
        target: a graph, an ONNX model or file, or an emitted MindSpore folder.
        threads: for ONNX Runtime.

    Raises:
        UsageError: for a path that is neither a ``.onnx`` file nor an emitted folder.
    """
    if isinstance(target, (Graph, onnx.ModelProto)):
        return OnnxRunner(target, threads=threads)
    path = Path(target)
    if path.is_dir() and (path / "model.py").exists():
        from .mindspore_runner import MindSporeRunner

        return MindSporeRunner.of_folder(path)
    if path.suffix == ".onnx" and path.is_file():
        return OnnxRunner(path, threads=threads)
    raise UsageError(
        "E001",
        f"expected a .onnx file or an emitted folder with model.py as target, got `{path}`",
        hint="a model of another framework is loaded first: regraft.verify(source, regraft.load(target))",
    )
