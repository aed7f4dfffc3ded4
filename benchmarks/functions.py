"""ONNX outputs with classes of modules as functions in ONNX Runtime, against the same outputs without."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from llama import Llama
from measuring import RATIOS, in_turns, print_ratios
from models import Missing, model_and_input
from runtime import session

MODELS = ("llama of 48 layers", "vit_small", "bert_like", "resnet18")
NODES = "nodes of an ONNX output's graph with functions"


def _model(name: str) -> tuple[Any, Any]:
    if name != MODELS[0]:
        return model_and_input(name, batch=1)
    import torch

    torch.manual_seed(0)
    return Llama(256, 512, 48, 1000).float().eval(), torch.randint(0, 1000, (1, 64))


def run(repeat: int, folder: Path) -> None:
    """Print two tables a model, the flat file first: a run, and the opening of a session."""
    import regraft

    found = RATIOS.setdefault(NODES, {"the flat file": 1.0})
    for name in MODELS:
        try:
            model, example = _model(name)
        except Missing as missing:
            print(missing)
            continue
        graph = regraft.rewrite(regraft.load(model, (example,))).graph
        jobs: dict[str, Callable[[], object]] = {}
        opened: dict[str, Callable[[], object]] = {}
        nodes: list[int] = []
        for label in ("the flat file", "with functions"):
            file = folder / f"{label}.onnx"
            regraft.save(graph, file, force=True, functions=label == "with functions")
            loaded, count = session(file)
            nodes.append(count)
            print(f"{name}, {label}: {count} nodes, {file.stat().st_size:,} bytes")
            feed = {loaded.get_inputs()[0].name: example.numpy()}
            jobs[label] = lambda loaded=loaded, feed=feed: loaded.run(None, feed)
            opened[label] = lambda file=file: session(file)
        found[name] = round(nodes[1] / nodes[0], 3)
        title = f"{name} in ONNX Runtime, one thread"
        print_ratios(title, in_turns(jobs, 20 * repeat), "milliseconds", 1e3)
        print_ratios(f"{name}: a session is opened", in_turns(opened, repeat), "milliseconds", 1e3)
