"""Peak memory of a conversion above the loaded model, as a share of the weights.

Two numbers each: what the process holds, and of that what is no page of a mapped file, which the system takes
back when it needs memory.
"""

from __future__ import annotations

import gc
import resource
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

SHARDS: dict[str, object] = {"max_shard_size": "100MB"}
"""Options of an output whose weights are in several files."""


def resident() -> tuple[int, int]:
    """Bytes of this process in memory, and those that are no pages of files (Linux)."""
    pages = [int(number) for number in Path("/proc/self/statm").read_text().split()[1:3]]
    return pages[0] * resource.getpagesize(), (pages[0] - pages[1]) * resource.getpagesize()


def linear_layers(layers: int, width: int) -> Any:
    """Layers of width x width, without the cost of their initial distributions."""
    import torch
    from torch.nn.utils import skip_init

    model = torch.nn.Sequential(*(skip_init(torch.nn.Linear, width, width) for _ in range(layers)))
    for parameter in model.parameters():
        parameter.data.uniform_(-1, 1)
    return model.eval()


def peaks_above(job: Callable[[], object]) -> list[int]:
    """Bytes by which each number of `resident` grows at most during a job."""
    gc.collect()
    base = resident()
    peaks = list(base)
    done = threading.Event()

    def watch() -> None:
        while not done.is_set():
            peaks[:] = map(max, peaks, resident())
            time.sleep(0.002)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        job()
    finally:
        done.set()
        watcher.join()
    return [peak - at for peak, at in zip(peaks, base, strict=True)]


def converted(source: Any, width: int, to: str, out: Path, **options: object) -> Callable[[], object]:
    """The job that converts a module or a symbol without verifying."""
    import torch

    import regraft

    given = {"input": np.zeros((2, width), np.float32)}

    def job() -> None:
        inputs = given if isinstance(source, Path) else (torch.randn(2, width),)
        rewritten = regraft.rewrite(regraft.load(source, inputs))
        regraft.save(rewritten.graph, out, to=to, force=True, **options)

    return job


def run(gigabytes: float, folder: Path) -> None:
    """Print one line a source and target."""
    width = int((gigabytes * 1e9 / 8 / 4) ** 0.5)
    weights = 8 * 4 * width * width
    print(f"peak memory above a model of 8 linear layers, {weights / 1e9:.2f} GB of weights")
    small, model = linear_layers(2, 8), linear_layers(8, width)
    symbols: list[Path] = []
    for name, module, size in (("small", small, 8), ("large", model, width)):
        converted(module, size, "mxnet", folder / name)()
        symbols += (folder / name).glob("*-symbol.json")
    for framework, warm, source in (("torch", small, model), ("mxnet", *symbols)):
        for to, name, options in (
            ("onnx", "model.onnx", {}),
            ("onnx", "shards.onnx", SHARDS),
            ("mindspore", "mindspore", {}),
            ("mindspore", "shards", SHARDS),
            ("mxnet", "mxnet", {}),
        ):
            converted(warm, 8, to, folder / name)()  # imports are not the conversion's
            above, own = peaks_above(converted(source, width, to, folder / name, **options))
            cells = f"{above / 1e6:8.0f} MB {above / weights:7.3f} x, without files {own / weights:7.3f} x"
            print(f"  {framework:6} -> {to + ' in shards' * bool(options):19} {cells}", flush=True)
