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

_OFTENER = 4
"""How many times as often one example is run as a batch: it takes a third of a second in graph mode."""


def emitted(model: Any, example: Any, folder: Path, **options: Any) -> Any:
    """The net of an emitted model.py, with its weights; `options` are those of `regraft.save`."""
    import regraft

    graph = regraft.rewrite(regraft.load(model, (example,))).graph
    regraft.save(graph, folder, to="mindspore", force=True, **options)
    spec = importlib.util.spec_from_file_location(f"regraft_benchmark_{folder.name}", folder / "model.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # graph mode compiles only what it finds there
    spec.loader.exec_module(module)
    return module.build()


def handwritten() -> dict[str, Callable[[], Any]]:
    """Name of a model -> mindcv's net of the same architecture."""
    if not importlib.util.find_spec("mindcv"):
        raise Missing("the hand-written nets need mindcv, which is not installed")
    from mindcv.models.resnet import resnet50  # type: ignore[import-not-found]
    from mindcv.models.vit import VisionTransformer  # type: ignore[import-not-found]

    small = {"patch_size": 16, "embed_dim": 384, "depth": 12, "num_heads": 6}
    return {"resnet50": resnet50, "vit_small": lambda: VisionTransformer(image_size=224, **small)}


def run(repeat: int, folder: Path) -> None:
    """Print a table for each model, mode and batch size: mindcv's first."""
    import mindspore

    for model, by_hand in handwritten().items():
        nets = {"mindcv": by_hand(), "regraft": emitted(*model_and_input(model), folder / model)}
        if model == "resnet50":  # mindcv pads its one maximum pool as "same", which is another function
            nets["mindcv, pool padded as torch's"] = by_hand()
            nets["mindcv, pool padded as torch's"].max_pool = mindspore.nn.MaxPool2d(
                3, stride=2, pad_mode="pad", padding=1
            )
        if model == "vit_small":
            layers = model_and_input("vit_small_layers")
            nets["regraft, attention's parts"] = emitted(*layers, folder / "parts")
            nets["regraft, --attention-layers"] = emitted(*layers, folder / "layers", attention_layers=True)
        for net in nets.values():
            net.set_train(False)
        for mode, name in ((mindspore.PYNATIVE_MODE, "PyNative"), (mindspore.GRAPH_MODE, "graph mode")):
            mindspore.set_context(mode=mode)
            for batch in (1, 8):
                x = mindspore.Tensor(np.ones((batch, 3, 224, 224), np.float32))
                jobs: dict[str, Callable[[], object]] = {
                    label: lambda net=net, x=x: net(x).asnumpy() for label, net in nets.items()
                }
                times = in_turns(jobs, repeat if batch > 1 else _OFTENER * repeat)
                print_ratios(f"{model} in MindSpore, {name}, batch {batch}", times)
