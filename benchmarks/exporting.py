"""From a torch module to files, against a bare ``torch.export.export`` and torch's own exporters.

regraft keeps the batch symbolic unless told otherwise, and torch's exporters keep it static: each is measured
both ways, and the first yardstick is a bare capture with a symbolic batch.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

from measuring import in_turns, print_ratios
from models import model_and_input


def jobs(model: Any, example: Any, folder: Path) -> dict[str, Callable[[], object]]:
    """Name -> job, the bare capture with a symbolic batch first."""
    import torch

    import regraft

    def ours(to: str, *, verified: bool, dynamic_batch: bool = True) -> Callable[[], object]:
        def job() -> object:
            graph = regraft.load(model, (example,), dynamic_batch=dynamic_batch)
            result = regraft.rewrite(graph, to=to)
            out = folder / ("regraft.onnx" if to == "onnx" else f"regraft-{to}")
            regraft.save(result.graph, out, to=to, force=True)
            return regraft.verify(graph, out) if verified else None

        return job

    batch = ({0: torch.export.Dim.AUTO},)
    found: dict[str, Callable[[], object]] = {
        "torch.export (bare, dynamic batch)": lambda: torch.export.export(
            model, (example,), dynamic_shapes=batch, strict=False
        ),
        "torch.export (bare, static)": lambda: torch.export.export(model, (example,), strict=False),
        "regraft -> onnx, not verified": ours("onnx", verified=False),
        "regraft -> mindspore, not verified": ours("mindspore", verified=False),
        "regraft -> torch, not verified": ours("torch", verified=False),
        "regraft -> onnx, verified": ours("onnx", verified=True),
        "regraft -> onnx, static, not verified": ours("onnx", verified=False, dynamic_batch=False),
        "torch.onnx.export(dynamo=False), static": lambda: torch.onnx.export(
            model, (example,), folder / "script.onnx", dynamo=False
        ),
    }
    if importlib.util.find_spec("onnxscript"):
        dynamo = folder / "dynamo.onnx"
        found["torch.onnx.export(dynamo=True), static"] = lambda: torch.onnx.export(
            model, (example,), dynamo, dynamo=True, verbose=False
        )
        found["torch.onnx.export(dynamo=True), dynamic batch"] = lambda: torch.onnx.export(
            model, (example,), dynamo, dynamo=True, verbose=False, dynamic_shapes=batch
        )
    else:
        print("  torch.onnx.export(dynamo=True) needs onnxscript, which is not installed")
    return found


def run(names: list[str], repeat: int, folder: Path) -> None:
    """Print a table a model."""
    for name in names:
        model, example = model_and_input(name)
        times = in_turns(jobs(model, example, folder), repeat)
        print_ratios(f"export of {name}, {tuple(example.shape)}", times)
