"""MXNet symbols to ONNX, beside MXNet's own exporter, over the models of the corpus.

Two variables say what is there: `CORPORA` the checkout of the corpus, and `REGRAFT_MXNET_PYTHON` a Python
with ``mxnet==1.9.1``, ``onnx<1.13`` and NumPy below 1.24.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from models import Missing
from suites.verdicts import imported

JOBS = Path(__file__).resolve().parent / "mxnet_jobs.py"
TIMES = {"whole": "process", "again": "conversion"}
"""What a job measures -> how its column is called."""


def run(every: int, folder: Path) -> None:
    """Print one line a model, and the median of the ratios.

    Args:
        every: take each model of this many.
        folder: for the files, those of one model at a time.

    Raises:
        Missing: when a variable names nothing.
    """
    corpora, python = Path(os.environ.get("CORPORA", "")), os.environ.get("REGRAFT_MXNET_PYTHON", "")
    if not (corpora / "corpus.py").is_file():
        raise Missing("skipped, CORPORA names no checkout of the corpus of MXNet")
    if not Path(python).is_file():
        raise Missing("skipped, REGRAFT_MXNET_PYTHON names no Python that has MXNet and onnx")
    has_both = subprocess.run(
        [python, "-c", "import mxnet, onnx"], check=False, capture_output=True, text=True
    )
    if has_both.returncode:
        said = (has_both.stderr.strip().splitlines() or ["it ended without a word"])[-1]
        raise Missing(f"skipped, REGRAFT_MXNET_PYTHON has not both mxnet and onnx: {said}")
    corpus = imported("mxnet_corpus", corpora.resolve() / "corpus.py").Corpus(str(corpora))
    cases = list(corpus.cases(kind="zoo"))[::every]
    print(f"{len(cases)} symbols to ONNX, not verified: CPU seconds of MXNet's exporter against regraft's")
    ratios: dict[str, list[float]] = {name: [] for name in TIMES}
    for case in cases:
        case.write(str(folder / "case"))
        given = json.dumps([[i["name"], i["shape"], i["dtype"]] for i in case.meta["inputs"]])
        ours, theirs = (
            measured(path, side, folder, given)
            for path, side in ((sys.executable, "regraft"), (python, "mxnet"))
        )
        if ours is None or theirs is None:
            print(
                f"  {case.id:44} {'regraft' if ours is None else 'the exporter'} cannot convert it",
                flush=True,
            )
            continue
        cells: list[str] = []
        for name, column in TIMES.items():
            ratios[name].append(theirs[name] / ours[name])
            cells.append(f"{column} {theirs[name]:6.2f} {ours[name]:6.2f} {ratios[name][-1]:6.1f} x")
        print(f"  {case.id:44} {'   '.join(cells)}", flush=True)
    for name, column in TIMES.items():
        if ratios[name]:
            print(f"  median of {len(ratios[name])}, {column}: {statistics.median(ratios[name]):.1f} x")


def measured(python: str, side: str, folder: Path, given: str) -> dict[str, Any] | None:
    """What a job says, None where it fails."""
    command = [python, str(JOBS), side, str(folder / "case"), str(folder / f"{side}.onnx"), given]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else None
