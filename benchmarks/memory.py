"""Peak memory of a conversion above the loaded model, as a share of the weights."""

from __future__ import annotations

import gc
import threading
import time
from pathlib import Path
from typing import Any


def resident() -> int:
    """Bytes of this process in memory (Linux)."""
    import resource

    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def linear_layers(layers: int, width: int) -> Any:
    """Layers of width x width, without the cost of their initial distributions."""
    import torch
    from torch.nn.utils import skip_init

    model = torch.nn.Sequential(*(skip_init(torch.nn.Linear, width, width) for _ in range(layers)))
    for parameter in model.parameters():
        parameter.data.uniform_(-1, 1)
    return model.eval()


def peak_above(model: Any, width: int, to: str, out: Path) -> int:
    """Bytes by which memory grows at most while a model is converted."""
    import torch

    import regraft

    gc.collect()
    base = peak = resident()
    done = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.is_set():
            peak = max(peak, resident())
            time.sleep(0.002)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        rewritten = regraft.rewrite(regraft.load(model, (torch.randn(2, width),)))
        regraft.save(rewritten.graph, out, to=to, force=True)
    finally:
        done.set()
        watcher.join()
    return peak - base


def run(gigabytes: float, folder: Path) -> None:
    """Print one line a target."""
    width = int((gigabytes * 1e9 / 8 / 4) ** 0.5)
    print(f"peak memory above a model of 8 linear layers, {8 * 4 * width * width / 1e9:.2f} GB of weights")
    small, model = linear_layers(2, 8), linear_layers(8, width)
    for to, name in (("onnx", "model.onnx"), ("mindspore", "mindspore")):
        peak_above(small, 8, to, folder / name)  # imports are not the conversion's
        above = peak_above(model, width, to, folder / name)
        print(f"  {to:10} {above / 1e6:8.0f} MB {above / (8 * 4 * width * width):7.3f} x", flush=True)
