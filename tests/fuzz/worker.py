"""A process that fuzzes until its time is over, within a limit of memory; prints a line of JSON a fault."""

from __future__ import annotations

import argparse
import base64
import importlib
import json
import os
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

from regraft.frontends.mindspore_cell.capture import start_mindspore

from .mutation import seeded
from .oracle import BYTES, Fault, attempt, status
from .registry import Target, regressions, targets

Report = Callable[[Target, bytes, Fault], None]

_SHARE = 0.1
"""How often an input is a further mutation of one that once failed."""


def fuzz(names: list[str], seconds: float, seed: int, report: Report, current: Path) -> Counter[str]:
    """Fuzz targets in turn; returns how many inputs of each led to which exit code.

    Args:
        names: the targets; empty for all.
        seconds: how long.
        seed: of the mutations.
        report: gets (target, input, fault).
        current: a file that holds the input being tried, for whoever finds this process dead.
    """
    random = Random(seed)
    chosen, seeds = _ready(names, current.parent / "case")
    known = {t.name: [p.read_bytes() for p in regressions(t.name)] for t in chosen}
    codes: Counter[str] = Counter()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        (target,) = random.choices(chosen, [t.share for t in chosen])
        pool = known[target.name] if known[target.name] and random.random() < _SHARE else seeds[target.name]
        try:
            data = seeded(pool, target.mutate, random)
        except (ValueError, RecursionError):  # a regression that is no document cannot be changed as one
            continue
        current.write_bytes(target.name.encode() + b"\n" + data)
        code, fault = attempt(target, data, current.parent / "case")
        codes[f"{target.name} {code}"] += 1
        if fault is not None:
            report(target, data, fault)
            if fault.kind in ("time", "memory"):  # what it was doing may be half done
                break
    return codes


def again(name: str, data: bytes, report: Report, current: Path) -> None:
    """Try one input in a process that has seen nothing else but the seeds."""
    (target,), _ = _ready([name], current.parent / "case")
    current.write_bytes(name.encode() + b"\n" + data)
    _, fault = attempt(target, data, current.parent / "case")
    if fault is not None:
        report(target, data, fault)


def _ready(names: list[str], folder: Path) -> tuple[list[Target], dict[str, list[bytes]]]:
    """The targets and their seeds, everything imported and memory limited."""
    chosen = [t for name, t in targets().items() if not names or name in names]
    seeds = {t.name: [*t.seeds()] for t in chosen}
    warm_up(chosen, seeds, folder)
    limit_memory()
    return chosen, seeds


def warm_up(chosen: list[Target], seeds: dict[str, list[bytes]], folder: Path) -> None:
    """Run the first seeds of each, so that what they import is no input's doing."""
    for name in ("onnxruntime", "torch.export"):
        importlib.import_module(name)
    start_mindspore()
    # the first operator behind a queue, as initial values are drawn, reserves addresses of 1.2 GB
    importlib.import_module("mindspore").ops.ones(1).asnumpy()
    for target in chosen:
        for data in seeds[target.name][:2]:
            attempt(target, data, folder, 300)


def limit_memory() -> None:
    """Let an input have no more than `BYTES` beyond what this process has mapped."""
    mapped = status("VmSize")
    if mapped:
        resource.setrlimit(resource.RLIMIT_AS, (mapped + BYTES + (256 << 20), resource.RLIM_INFINITY))


def main() -> None:
    """Command line of a worker; `__main__.py` starts it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--targets", default="")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--current", type=Path)
    parser.add_argument("--only", type=Path, help="a file with the one input that is tried, of one target")
    given = parser.parse_args()
    os.environ.setdefault("GLOG_v", "4")
    stdout = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no report

    def report(target: Target, data: bytes, fault: Fault) -> None:
        row = {"target": target.name, "kind": fault.kind, "what": fault.what, "detail": fault.detail}
        print(json.dumps({**row, "input": base64.b64encode(data).decode()}), file=stdout, flush=True)

    with tempfile.TemporaryDirectory(prefix="regraft-fuzz-") as scratch:
        current = given.current or Path(scratch) / "current"
        if given.current:
            current.parent.mkdir(parents=True, exist_ok=True)
        names = [n for n in given.targets.split(",") if n]
        codes = Counter[str]()
        if given.only:
            again(names[0], given.only.read_bytes(), report, current)
        else:
            codes = fuzz(names, given.seconds, given.seed, report, current)
    print(json.dumps({"codes": codes}), file=stdout, flush=True)
    stdout.close()
    sys.stderr.flush()
    os._exit(0)  # frameworks that tear down slowly have nothing to add


if __name__ == "__main__":
    main()
