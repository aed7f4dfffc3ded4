"""How often a right target is called wrong: every net and target, rewritten without changing the meaning.

python -m regraft.benchmarks.mutation.right [--net NAME]... [--seeds N] [--out FILE.jsonl]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np

os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX2")  # MindSpore's convolutions: before it is imported
os.environ.setdefault("GLOG_v", "4")

from ...api import rewrite
from ...ir import RegraftError
from .mutants import Target
from .right_mindspore import mindspore_rewrites
from .right_onnx import onnx_rewrites
from .samples import BATCH, Sample, labels, varied
from .sharing import shared_runs

DRAWS = ("x 10", "+ 3", "in 0..1", "x 0.01")
"""Variations of the example inputs on which the right target is compared too."""

Row = Mapping[str, object]


def targets(sample: Sample, scratch: Path) -> Iterator[tuple[str, str, Callable[[], Target]]]:
    """(target, what was done to it, what makes it) of everything right that can be made of a net."""
    for target in sample.targets:
        yield target, "as written", lambda target=target: sample.written(target)
        if target.startswith("onnx"):
            path = sample.written(target)
            assert isinstance(path, Path)
            for what, build in onnx_rewrites(path):
                yield target, what, lambda build=build: build(scratch)
        elif target == "mindspore":
            path = sample.written(target)
            assert isinstance(path, Path)
            for what, build in mindspore_rewrites(path):
                yield target, what, lambda build=build: build(scratch)
    yield "graph", "no passes", lambda: rewrite(sample.graph, []).graph


def judged(label: str, seeds: int) -> Iterator[Row]:
    """One row a comparison of one net: "equal", or how the report begins where it is not."""
    for further in range(seeds if not label.startswith("mxnet.") else 1):
        with tempfile.TemporaryDirectory() as scratch, shared_runs():
            (Path(scratch) / "right").mkdir()
            sample = Sample(label, Path(scratch) / "right", further)
            for target, what, make in targets(sample, Path(scratch)):
                if further and what != "as written":
                    continue
                yield _row(label, target, f"{what}, weights {further}", sample, make, None)
            names = [node.name for node in sample.graph.input_nodes()]
            arrays = sample.inputs(BATCH)
            if not further and any(a.dtype.kind == "f" for a in arrays):
                for draw in DRAWS:
                    given = dict(zip(names, varied(arrays, draw), strict=True))
                    for target in sample.targets[:1] + sample.targets[-2:-1]:
                        make = partial(sample.written, target)
                        yield _row(label, target, f"as written, inputs {draw}", sample, make, given)


def _row(
    label: str,
    target: str,
    what: str,
    sample: Sample,
    make: Callable[[], Target],
    given: dict[str, np.ndarray] | None,
) -> Row:
    row = {"net": label, "target": target, "what": what}
    try:
        report = sample.verified(target, make(), given)
    except RegraftError as error:
        return {**row, "verdict": "refused", "why": f"{error.code} {error.message}"[:300]}
    except Exception as error:  # an internal error is a fault of the verifier's, and told as one
        return {**row, "verdict": "crashed", "why": f"{type(error).__name__}: {error}"[:300]}
    if report.passed:
        return {**row, "verdict": "equal", "why": ""}
    return {**row, "verdict": "different", "why": report.render(brief=True)[:1500]}


def main() -> None:
    """Compare, net by net, each in a process of its own, and print what was called wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--net", action="append", help="default: all; may be repeated")
    parser.add_argument("--seeds", type=int, default=1, help="weights to try of each net")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, help="keep every row in this file, one JSON object a line")
    parser.add_argument("--store", action="store_true", help="put the result into the tree")
    parser.add_argument("--here", action="store_true", help="in this process, and print rows as JSON")
    options = parser.parse_args()
    nets = [n for n in labels() if not options.net or n in options.net]
    if options.here:
        for net in nets:
            for row in judged(net, options.seeds):
                print(json.dumps(row), flush=True)
        return

    def apart(net: str) -> list[Row]:
        command = [sys.executable, "-m", __spec__.name if __spec__ else __name__, "--here", "--net", net]
        done = subprocess.run(
            [*command, "--seeds", str(options.seeds)], capture_output=True, text=True, check=False
        )
        found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        if done.returncode:
            last = next(reversed(done.stderr.strip().splitlines()), "")[:300]
            found.append({"net": net, "target": "", "what": "", "verdict": "crashed", "why": last})
        if options.out:
            with options.out.open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(row) + "\n" for row in found)
        return found

    with ThreadPoolExecutor(options.jobs) as pool:
        rows = [row for found in pool.map(apart, nets) for row in found]
    from .stored import store_right
    from .table import render_right

    print(render_right(rows))
    if options.store:
        store_right(rows)


if __name__ == "__main__":
    main()
