"""Emitted PyTorch modules beside their originals, run eagerly in one process, in turns."""

from __future__ import annotations

import importlib.util
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from measuring import RATIOS, in_turns, print_ratios
from models import NAMES, Missing, model_and_input

MODELS = (*NAMES, "mobilenet_v2", "convnext_tiny")
BATCHES = (1, 8)
_WORK = 0.5
"""Seconds of a job, in whole forwards."""


def emitted(model: Any, example: Any, folder: Path) -> Any:
    """The module that `regraft.save` writes for a model, built with its weights."""
    import regraft

    regraft.save(regraft.rewrite(regraft.load(model, (example,))), folder, to="torch", force=True)
    name = f"regraft_benchmark_{folder.name}"
    spec = importlib.util.spec_from_file_location(name, folder / "model.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module.build()


def run(repeat: int, folder: Path) -> None:
    """Print a line for each model and batch size, and a table a batch size of the median over the models."""
    import torch

    torch.set_num_threads(1)
    found: dict[int, list[float]] = {batch: [] for batch in BATCHES}
    for name in MODELS:
        try:
            model, example = model_and_input(name)
        except Missing as error:
            print(f"{name}: {error}")
            continue
        ours = emitted(model, example, folder / name)
        for batch in BATCHES:
            given = example[:1].repeat(batch, *[1] * (example.dim() - 1))
            found[batch].append(_ratio(name, model, ours, given, repeat))
    for batch, ratios in found.items():
        if ratios:
            title = f"an emitted PyTorch module, eager, batch {batch}: median of {len(ratios)} models"
            middle = statistics.median(ratios)
            RATIOS[title] = {"the original": 1.0, "regraft's": round(middle, 3)}
            print(f"{title}: {middle:.2f} x")


def _ratio(name: str, model: Any, ours: Any, given: Any, repeat: int) -> float:
    """Time both in turns, and return the emitted one's time as a multiple of the original's."""
    import torch

    with torch.inference_mode():
        start = time.process_time()
        torch.testing.assert_close(ours(given), model(given), rtol=1e-4, atol=1e-4)
        turns = max(1, round(2 * _WORK / (time.process_time() - start)))

        def forwards(net: Any) -> None:
            for _ in range(turns):
                net(given)

        jobs = {"the original": lambda: forwards(model), "regraft's": lambda: forwards(ours)}
        times = in_turns(jobs, repeat)
    title = f"{name}, eager, batch {len(given)}, {turns} forwards"
    return print_ratios(title, times, keep=False)["regraft's"]
