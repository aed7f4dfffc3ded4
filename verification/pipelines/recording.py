"""Records the first samples of one pipeline: ``python -m … FILE.py:FUNCTION FOLDER N``."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from ...frontends.python_file import find_function
from ...ir import RegraftError
from .mindspore_pipeline import open_mindspore
from .opened import Opened
from .stages import LINES, RECORDED, Stage, as_array
from .torch_pipeline import open_torch

MOST_ELEMENTS = 1 << 26
"""Elements of all recorded samples together."""


def main(arguments: list[str]) -> int:
    """Record one pipeline; an error is a document, too."""
    reference, folder, count = arguments[0], Path(arguments[1]), int(arguments[2])
    try:
        document, arrays = record(reference, count)
    except RegraftError as error:
        document, arrays = {"error": [error.code, error.message, str(error.place), error.hint]}, {}
    except Exception as error:  # the user's code may raise anything; the parent tells it with its line
        document, arrays = (
            {"error": ["E102", f"{type(error).__name__}: {error}", _line_of(error, reference), ""]},
            {},
        )
    np.savez(folder / "arrays.npz", **arrays)
    (folder / "record.json").write_text(json.dumps(document), encoding="utf-8")
    return 0


def record(reference: str, count: int) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the description of a pipeline and the arrays of its first samples."""
    random.seed(0)
    np.random.seed(0)
    make = find_function(reference)
    with _lines_noted(reference):
        found: Any = make()
    pipeline = open_torch(found, count) or open_mindspore(found, count)
    if pipeline is None:
        pipeline = Opened("iterable", found, notes=["its order is taken as it is"])
    fields, samples, batches, complete = _read(pipeline, count)
    arrays = {
        f"f{i}.{j}": array for i, values in enumerate(fields.values()) for j, array in enumerate(values)
    }
    stages: list[list[dict[str, Any]]] = []
    for chain in pipeline.chains:
        rows: list[dict[str, Any]] = []
        for number in chain:
            stage = RECORDED[number]
            at = len(rows)
            arrays.update({f"s{len(stages)}.{at}.{j}": v for j, v in enumerate(stage.values)})
            rows.append(_row(stage))
        stages.append(rows)
    document = {
        "kind": pipeline.kind,
        "fields": list(fields),
        "read": samples,
        "complete": complete,
        "batch_sizes": batches,
        "samples": samples if complete else pipeline.samples,
        "batches": len(batches) if complete else pipeline.batch_count,
        "settings": pipeline.settings,
        "stages": stages,
        "notes": pipeline.notes,
    }
    return document, arrays


def _read(pipeline: Opened, count: int) -> tuple[dict[str, list[np.ndarray]], int, list[int], bool]:
    """Return field -> a sample each, their number, the sizes of batches, and whether that was all."""
    fields: dict[str, list[np.ndarray]] = {}
    sizes: list[int] = []
    read = elements = 0
    complete = True
    for batch in pipeline.batches:
        parts = {name: array for name, value in _parts(batch) if (array := as_array(value)) is not None}
        if read >= count or elements > MOST_ELEMENTS:
            complete = False
            break
        size = next((len(a) for a in parts.values() if a.ndim), 1) if pipeline.batched else 1
        sizes.append(size)
        for name, array in parts.items():
            held = fields.setdefault(name, [])
            rows = list(array) if pipeline.batched and array.ndim and len(array) == size else [array]
            held += [np.asarray(row) for row in rows][: count - len(held)]
            elements += array.size
        read += size
    return fields, read, sizes, complete


def _parts(batch: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the leaves of a batch with their names: keys, fields, or places."""
    if isinstance(batch, dict):
        for key, value in batch.items():
            yield from _parts(value, f"{path}.{key}" if path else str(key))
    elif isinstance(batch, (list, tuple)) and not hasattr(batch, "shape"):
        keys = list(getattr(batch, "_fields", ())) or [str(i) for i in range(len(batch))]
        if all(isinstance(v, (int, float, str)) for v in batch) and batch:
            yield path or "0", np.asarray(batch)
            return
        for key, value in zip(keys, batch, strict=False):
            yield from _parts(value, f"{path}.{key}" if path else key)
    else:
        yield path or "0", batch


def _row(stage: Stage) -> dict[str, Any]:
    return {
        "name": stage.name,
        "kind": stage.kind,
        "settings": stage.settings,
        "random": stage.random,
        "given": stage.given,
        "line": stage.line,
        "values": len(stage.values),
    }


@contextmanager
def _lines_noted(reference: str) -> Iterator[None]:
    """Note the line of the user's file that makes each transform in a with block."""
    path = Path(reference.rpartition(":")[0]).resolve()
    kept: list[object] = []  # an identity is taken again once its object is gone

    def note(frame: FrameType, event: str, argument: object) -> None:
        del argument
        if event != "call" or frame.f_code.co_name != "__init__":
            return
        made = frame.f_locals.get("self")
        if not type(made).__module__.startswith(_TRANSFORMS) or id(made) in LINES:
            return
        caller = frame.f_back
        while caller is not None and Path(caller.f_code.co_filename) != path:
            caller = caller.f_back
        if caller is not None:
            kept.append(made)
            LINES[id(made)] = caller.f_lineno

    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)
        _KEPT.extend(kept)


_TRANSFORMS = ("torchvision.transforms", "mindspore.dataset")
_KEPT: list[object] = []


def _line_of(error: BaseException, reference: str) -> str:
    path, line = Path(reference.rpartition(":")[0]), 0
    trace = error.__traceback__
    while trace is not None:
        if Path(trace.tb_frame.f_code.co_filename).name == path.name:
            line = trace.tb_lineno
        trace = trace.tb_next
    return f"{path}:{line}" if line else str(path)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
