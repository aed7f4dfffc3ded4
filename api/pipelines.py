"""Two input pipelines side by side; the part of the front door for the data of a port."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..formats.files import settle_beside
from ..ir import UsageError
from ..process.entry import public_call
from ..process.progress import phase
from ..verification.pipelines import DataReport, Finding, compare_pipelines
from ..verification.runners.select_runner import own_runner


@phase("compare-data")
@public_call()
def compare_data(
    first: str, second: str, *, samples: int = 64, models: Sequence[object] = (), trust: bool = False
) -> DataReport:
    """Compare two input pipelines, and name the first transform that differs.

    Each function runs in a process of its own, **which runs its file**: in order and without workers. Random
    transforms are compared by their settings, and for the values replaced by the middle of their range.

    Args:
        first: ``FILE.py:FUNCTION``, which takes nothing and gives a ``DataLoader``, a dataset of torch or of
            ``mindspore.dataset``, or any iterable of batches.
        second: likewise: the port of the first.
        samples: number of samples to compare.
        models: two models as `load` takes them, for the first and the second: their outputs on the first
            samples are compared, too.
        trust: as in `load`, for the models.

    Returns:
        The report; `equal` is True where nothing differs.

    Raises:
        ModelError: when a file or its pipeline raises.
    """
    for reference in (first, second):
        if ":" not in str(reference):
            raise UsageError("E001", f"expected FILE.py:FUNCTION, got `{reference}`")
    if samples < 1:
        raise UsageError("E001", f"expected a positive number of samples, got {samples}")
    settle_beside(*(Path(reference.rpartition(":")[0]) for reference in (first, second)))
    report = compare_pipelines(first, second, samples)
    if models:
        _compare_outputs(report, models, trust=trust)
    return report


def _compare_outputs(report: DataReport, models: Sequence[object], *, trust: bool) -> None:
    """Compare what two models compute of the first samples, each of those of its own pipeline."""
    from . import load

    if len(models) != 2:
        raise UsageError("E001", f"expected 2 models, got {len(models)}")
    outputs: list[np.ndarray] = []
    for model, batch in zip(models, report.first_batches, strict=True):
        if batch is None:
            report.notes.append("outputs were not compared: no field of images or of numbers was found")
            return
        graph = load(model, (batch,), trust=trust)
        runner = own_runner(graph)
        try:
            given = {node.name: batch for node in graph.input_nodes()}
            outputs.append(np.asarray(runner.run(given, calls=False).outputs[0][1]))
        finally:
            runner.close()
    if outputs[0].shape != outputs[1].shape:
        text = f"outputs have the shape {list(outputs[1].shape)} instead of {list(outputs[0].shape)}"
        report.findings.append(Finding("outputs", text))
        return
    apart = float(np.abs(outputs[0].astype(np.float64) - outputs[1]).max(initial=0.0))
    scale = float(np.abs(outputs[0]).max(initial=0.0)) or 1.0
    text = f"outputs are {apart:.3g} apart at most, {apart / scale:.2g} of the largest"
    if outputs[0].ndim == 2 and outputs[0].shape[1] > 1:
        alike = int((outputs[0].argmax(1) == outputs[1].argmax(1)).sum())
        text += f"; the largest output is the same for {alike} of {len(outputs[0])} samples"
    report.notes.append(text)
