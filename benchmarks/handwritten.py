"""Emitted MindSpore source against the nets that mindcv's authors wrote by hand, in both modes."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from measuring import in_turns, print_ratios
from models import Missing, model_and_input


def emitted(model: Any, example: Any, folder: Path) -> Any:
    """The net of an emitted model.py, with its weights."""
    import regraft

    regraft.save(regraft.rewrite(regraft.load(model, (example,))).graph, folder, to="mindspore", force=True)
    spec = importlib.util.spec_from_file_location("regraft_benchmark_emitted", folder / "model.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # graph mode compiles only what it finds there
    spec.loader.exec_module(module)
    return module.build()


def run(repeat: int, folder: Path) -> None:
    """Print a table for each mode and batch size of ResNet-50: mindcv's first."""
    if not importlib.util.find_spec("mindcv"):
        raise Missing("the hand-written nets need mindcv, which is not installed")
    import mindspore
    from mindcv.models.resnet import resnet50  # type: ignore[import-not-found]

    nets = {
        "mindcv": resnet50().set_train(False),
        "regraft": emitted(*model_and_input("resnet50"), folder).set_train(False),
    }
    for mode, name in ((mindspore.PYNATIVE_MODE, "PyNative"), (mindspore.GRAPH_MODE, "graph mode")):
        mindspore.set_context(mode=mode)
        for batch in (1, 8):
            x = mindspore.Tensor(np.ones((batch, 3, 224, 224), np.float32))
            jobs: dict[str, Callable[[], object]] = {
                label: lambda net=net, x=x: net(x).asnumpy() for label, net in nets.items()
            }
            print(f"resnet50, {name}, batch {batch}: CPU seconds, median of {repeat}, in turns")
            print_ratios(in_turns(jobs, repeat))
