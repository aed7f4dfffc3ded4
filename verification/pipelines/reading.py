"""Runs the recorder for one pipeline, and reads what it wrote."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...ir import ModelError
from ...ir.outside.own_folders import temporary_folder
from .stages import Stage

_SECONDS = 600


@dataclass
class Recorded:
    """The first samples of a pipeline.

    Attributes:
        reference: ``FILE.py:FUNCTION``.
        kind: what the function gives.
        fields: name -> a sample each.
        samples: number of samples in all; None for unknown.
        batches: likewise.
        batch_sizes: of the batches that were read.
        settings: batch size, whether it shuffles and drops the last batch, where it states that.
        chains: its transforms, by chain.
        notes: what was changed for the recording.
    """

    reference: str
    kind: str
    fields: dict[str, list[np.ndarray]]
    samples: int | None
    batches: int | None
    batch_sizes: list[int]
    settings: dict[str, Any]
    chains: list[list[Stage]]
    notes: list[str]

    @property
    def images(self) -> list[Stage]:
        """The chain that gives images; empty where none was found."""
        for chain in self.chains:
            if any(stage.values and stage.values[0].ndim >= 2 for stage in chain):
                return chain
        return []


def record_pipeline(reference: str, samples: int) -> Recorded:
    """Run the recorder in a process of its own, and return the first samples.

    Args:
        reference: ``FILE.py:FUNCTION``; the function takes nothing.
        samples: number of samples.

    Raises:
        ModelError: E102 when the file or its pipeline raises, E702 when the process ends or takes too long.
    """
    own = temporary_folder()
    try:
        command = [sys.executable, "-m", f"{__package__}.recording", reference, str(own.path), str(samples)]
        try:
            done = subprocess.run(  # noqa: S603 - the user names the file
                command, capture_output=True, text=True, timeout=_SECONDS, check=False
            )
        except subprocess.TimeoutExpired as error:
            text = f"expected {samples} samples within {_SECONDS} s"
            raise ModelError("E702", text, place=reference) from error
        if not (own.path / "record.json").is_file():
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise ModelError("E702", f"the process that read it ended: {last}", place=reference)
        return read_record(reference, own.path)
    finally:
        own.remove()


def read_record(reference: str, folder: Path) -> Recorded:
    """Return what the recorder wrote into a folder.

    Raises:
        ModelError: that of the recorder.
    """
    document = json.loads((folder / "record.json").read_text(encoding="utf-8"))
    if "error" in document:
        code, message, place, hint = document["error"]
        raise ModelError(code, message, place=place or reference, hint=hint)
    with np.load(folder / "arrays.npz", allow_pickle=False) as held:
        arrays = {name: held[name] for name in held.files}
    fields = {
        name: [arrays[f"f{i}.{j}"] for j in range(_count(arrays, f"f{i}."))]
        for i, name in enumerate(document["fields"])
    }
    chains: list[list[Stage]] = []
    for i, rows in enumerate(document["stages"]):
        chains.append([])
        for k, row in enumerate(rows):
            count = row.pop("values")
            values = [arrays[f"s{i}.{k}.{j}"] for j in range(count)]
            chains[-1].append(Stage(**row, values=values))
    return Recorded(
        reference,
        document["kind"],
        fields,
        document["samples"],
        document["batches"],
        document["batch_sizes"],
        document["settings"],
        chains,
        document["notes"],
    )


def _count(arrays: dict[str, np.ndarray], prefix: str) -> int:
    return sum(name.startswith(prefix) for name in arrays)
