"""From a MindSpore Cell to a graph and an ONNX file, against MINDIR and against MindSpore's own exporter."""

from __future__ import annotations

import importlib
import importlib.util
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from measuring import in_turns, print_ratios
from models import IMAGE, Missing

NETS = ("googlenet", "resnet18", "mobilenet_v2_100", "shufflenet_v2_x0_5", "convnext_tiny", "vit_b_32_224")
"""Of mindcv: branches, shortcuts, many small layers, channels taken apart, and two that ask for sizes."""


def jobs(net: Any, example: np.ndarray, folder: Path) -> dict[str, Callable[[], object]]:
    """Name -> job, the plain export first."""
    import mindspore

    import regraft

    x = mindspore.Tensor(example)

    def plain() -> None:
        net.compile_cache.clear()  # a second export would only write what the first has compiled
        mindspore.export(net, x, file_name=str(folder / "plain"), file_format="MINDIR")

    def to_onnx() -> None:
        graph = regraft.rewrite(regraft.load(net, (example,))).graph
        regraft.save(graph, folder / "regraft.onnx", to="onnx", force=True)

    found: dict[str, Callable[[], object]] = {
        "mindspore.export, MINDIR": plain,
        "regraft load, dynamic batch": lambda: regraft.load(net, (example,)),
        "regraft load, static": lambda: regraft.load(net, (example,), dynamic_batch=False),
        "regraft -> onnx, not verified": to_onnx,
    }
    exporter = getattr(getattr(mindspore, "onnx", None), "export", None)
    if exporter is None:
        print("  mindspore.onnx.export is not in this MindSpore")
        return found

    def peer() -> None:
        net.compile_cache.clear()
        exporter(net, x, file_name=str(folder / "peer"))

    try:
        peer()
    except Exception as error:  # it refuses many nets, in errors of many kinds: a line of the table
        print(f"  mindspore.onnx.export: {(str(error).strip() or type(error).__name__).splitlines()[0]}")
        return found
    return {**found, "mindspore.onnx.export, static": peer}


def run(repeat: int, folder: Path) -> None:
    """Print a table a net."""
    if not importlib.util.find_spec("mindcv"):
        raise Missing("the Cells are mindcv's, which is not installed")
    import mindspore

    models: Any = importlib.import_module("mindcv.models")

    example = np.random.default_rng(0).standard_normal((1, *IMAGE)).astype(np.float32)
    ratios: dict[str, list[float]] = {}
    for name in NETS:
        mindspore.set_seed(0)
        net = getattr(models, name)(pretrained=False).set_train(False)
        times = in_turns(jobs(net, example, folder), repeat)
        print_ratios(f"cell {name}, {example.shape}", times)
        plain = next(iter(times.values()))
        for job, runs in times.items():
            each = [run / first for run, first in zip(runs, plain, strict=True)]
            ratios.setdefault(job, []).append(statistics.median(each))
    print(f"median of {len(NETS)} nets, of those that a job takes")
    for job, found in ratios.items():
        print(f"  {job:38} {len(found):9} nets {statistics.median(found):6.2f} x")
