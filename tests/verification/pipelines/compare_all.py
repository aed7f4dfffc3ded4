"""Compares pairs of pipelines in one process: ``python compare_all.py FOLDER``, pairs on standard input."""

import json
import sys
from pathlib import Path

import numpy as np

from regraft.verification.pipelines import comparing, reading, recording
from regraft.verification.pipelines.stages import RECORDED

folder = Path(sys.argv[1])
known: dict[str, object] = {}


def record_here(reference: str, samples: int) -> reading.Recorded:
    """Record a pipeline as its own process does."""
    RECORDED.clear()
    document, arrays = recording.record(reference, samples)
    np.savez(folder / "arrays.npz", **arrays)
    (folder / "record.json").write_text(json.dumps(document))
    return reading.read_record(reference, folder)


comparing.record_pipeline = record_here
reports = []
for first, second in json.load(sys.stdin):
    file = Path(__file__).with_name("pipelines.py")
    report = comparing.compare_pipelines(f"{file}:{first}", f"{file}:{second}", 16)
    reports.append(report.to_json())
print(json.dumps(reports))
