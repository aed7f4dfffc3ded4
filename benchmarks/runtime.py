"""The exported model in ONNX Runtime, against torch's own exporter of today."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

from measuring import in_turns, print_ratios
from models import Missing, model_and_input


def session(file: Path) -> tuple[Any, int]:
    """A session on one thread, and the number of nodes in the file."""
    import onnx
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    nodes = len(onnx.load(file, load_external_data=False).graph.node)
    return onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"]), nodes


def run(names: list[str], repeat: int, folder: Path) -> None:
    """Print a table a model: torch.onnx's file first, ours, and ours with every layer kept."""
    if not importlib.util.find_spec("onnxscript"):
        raise Missing("torch.onnx.export(dynamo=True) needs onnxscript, which is not installed")
    import torch

    import regraft

    for name in names:
        model, example = model_and_input(name, batch=1)
        files = {n: folder / f"{n}.onnx" for n in ("torch.onnx (dynamo)", "regraft", "regraft --no-fold")}
        torch.onnx.export(
            model, (example,), files["torch.onnx (dynamo)"], dynamo=True, verbose=False, external_data=False
        )
        graph = regraft.rewrite(regraft.load(model, (example,))).graph
        regraft.save(graph, files["regraft"], force=True)
        regraft.save(graph, files["regraft --no-fold"], force=True, fold=False)
        jobs: dict[str, Callable[[], object]] = {}
        for label, file in files.items():
            loaded, nodes = session(file)
            feed = {loaded.get_inputs()[0].name: example.numpy()}
            print(f"{name}, {label}: {nodes} nodes")
            jobs[label] = lambda loaded=loaded, feed=feed: loaded.run(None, feed)
        times = in_turns(jobs, repeat)
        print_ratios(f"{name} in ONNX Runtime, batch 1, one thread", times, "milliseconds", 1e3)
