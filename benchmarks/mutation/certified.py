"""What certificates say of right targets, of right rewrites of them, and of planted faults.

python -m regraft.benchmarks.mutation.certified [--net NAME]... [--each N] [--out FILE.jsonl]

No planted fault may be certified, and no right rewrite may be called different. Each net has a process.
A fault that is certified changes nothing if the target computes the same in float64, by ONNX's reference
implementation, to 1e-12: a bias before a normalisation, a key's bias before a softmax.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX2")  # MindSpore's convolutions: before it is imported
os.environ.setdefault("GLOG_v", "4")

import numpy as np
import onnx
from onnx import numpy_helper

from ...api import load
from ...api.certificates import certify
from ...ir import Graph, RegraftError
from .mutants import Mutant, NotApplicableError, Target, generator, sampled
from .reference import Side, difference, read_side
from .right_onnx import onnx_rewrites
from .samples import Sample, labels

Row = Mapping[str, Any]


def last_bits(path: Path) -> Iterator[Mutant]:
    """One unit in the last place of one element of a tensor, of each tensor of floats in the file."""
    model = onnx.load(path)
    for tensor in model.graph.initializer:
        array = numpy_helper.to_array(tensor)
        if array.dtype != np.float32 or not array.size:
            continue
        at = int(generator(str(path.name), tensor.name).integers(array.size))

        def build(folder: Path, name: str = tensor.name, array: np.ndarray = array, at: int = at) -> Path:
            new = array.copy()
            new.flat[at] = np.nextafter(new.flat[at], np.float32(np.inf))
            changed = onnx.ModelProto()
            changed.CopyFrom(model)
            next(t for t in changed.graph.initializer if t.name == name).CopyFrom(
                numpy_helper.from_array(new, name)
            )
            onnx.save(changed, folder / "net.onnx")
            return folder / "net.onnx"

        yield Mutant("one unit in the last place", f"{tensor.name}[{at}]", build)


def judged(label: str, each: int) -> Iterator[Row]:
    """One row a target: of right ones and of planted faults."""
    with tempfile.TemporaryDirectory() as scratch:
        (Path(scratch) / "right").mkdir()
        sample = Sample(label, Path(scratch) / "right")
        for target in (t for t in sample.targets if t.startswith("onnx") or t == "graph"):
            written = sample.written(target)
            yield _row(sample, target, "right", "as written", lambda w=written: w, scratch)
            right = None
            with contextlib.suppress(Exception):
                right = read_side(Path(scratch) / "c.json", "target")
            faults = list(sample.mutants(target))
            if isinstance(written, Path):
                faults += last_bits(written)
                for what, build in onnx_rewrites(written):
                    yield _row(sample, target, "right", what, lambda b=build: b(Path(scratch)), scratch)
            for fault in sampled(faults, each, f"{label} | {target}"):
                if not fault.train:
                    make = lambda f=fault: f.build(Path(scratch))  # noqa: E731
                    row = _row(sample, target, fault.kind, fault.place, make, scratch)
                    yield {**row, **_proof(right, Path(scratch) / "c.json")} if row.get("certified") else row


def _proof(right: Side | None, path: Path) -> Row:
    """Compute the right target and a fault that was certified in float64: does the fault change anything?"""
    try:
        apart = np.inf if right is None else difference(right, read_side(path, "target"))
    except Exception as error:  # the reference does not run everything
        return {"apart": f"{type(error).__name__}: {error}"[:200]}
    return {"apart": float(apart), "equivalent": bool(apart < 1e-12)}


def _row(sample: Sample, target: str, kind: str, what: str, make: Callable[[], Target], scratch: str) -> Row:
    row = {"net": sample.label, "target": target, "kind": kind, "what": what}
    try:
        made = make()
        other = made if isinstance(made, Graph) else load(made)
    except (NotApplicableError, RegraftError) as error:
        return {**row, "grade": "invalid", "why": str(error)[:200]}
    except Exception as error:  # a file that the readers do not survive is for other tests
        return {**row, "grade": "invalid", "why": f"{type(error).__name__}: {error}"[:200]}
    try:
        found = certify(sample.graph, other, output=Path(scratch) / "c.json", seed=7)
    except RegraftError as error:
        return {**row, "grade": "refused", "why": f"{error.code} {error.message}"[:200]}
    except Exception as error:
        return {**row, "grade": "crashed", "why": f"{type(error).__name__}: {error}"[:200]}
    why = "; ".join(found.report["why"])
    return {**row, "grade": found.grade, "certified": found.passed, "why": why[:200]}


def main() -> None:
    """Print what is wrong: faults that are certified, and right rewrites that are called different."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--net", action="append", help="default: all; may be repeated")
    parser.add_argument("--each", type=int, default=1, help="faults of every kind, net and target; 0 for all")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, help="keep every row in this file, one JSON object a line")
    parser.add_argument("--here", action="store_true", help="in this process, and print rows as JSON")
    options = parser.parse_args()
    nets = [n for n in labels() if not options.net or n in options.net]
    if options.here:
        for net in nets:
            for row in judged(net, options.each):
                print(json.dumps(row), flush=True)
        return

    def apart(net: str) -> list[Row]:
        command = [sys.executable, "-m", __spec__.name if __spec__ else __name__, "--here", "--net", net]
        done = subprocess.run(
            [*command, "--each", str(options.each)], capture_output=True, text=True, check=False
        )
        found: list[Row] = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        if done.returncode:
            last = next(reversed(done.stderr.strip().splitlines()), "")[:300]
            found.append({"net": net, "target": "", "kind": "", "what": "", "grade": "crashed", "why": last})
        if options.out:
            with options.out.open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(row) + "\n" for row in found)
        return found

    with ThreadPoolExecutor(options.jobs) as pool:
        rows = [row for found in pool.map(apart, nets) for row in found]
    print(render(rows))


def render(rows: list[Row]) -> str:
    """Return a table of rows, and the rows that must not be."""
    lines = ["| kind | targets | certified | of these changing nothing |", "|---|---:|---:|---:|"]
    for kind in sorted({str(row["kind"]) for row in rows}, key=lambda k: (k != "right", k)):
        those = [row for row in rows if row["kind"] == kind and row["grade"] != "invalid"]
        counts = (sum(bool(row.get(name)) for row in those) for name in ("certified", "equivalent"))
        lines.append(f"| {kind} | {len(those)} | {' | '.join(map(str, counts))} |")
    for row in rows:
        missed = row.get("certified") and not row.get("equivalent")
        wrong = row["grade"] in ("crashed", "different") if row["kind"] == "right" else missed
        if wrong:
            lines.append(json.dumps(row))
    return "\n".join(lines)


if __name__ == "__main__":
    main()
