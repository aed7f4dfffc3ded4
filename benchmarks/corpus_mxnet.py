"""How many MXNet symbols open again and compute what MXNet computed: the table of the corpus.

    CORPORA=path/to/corpora/mxnet python benchmarks/corpus_mxnet.py [--kind zoo,op,net,legacy] [--only REGEX]

The corpus is a checkout of its own: a loader, and cases with their parameters, their inputs and what MXNet
1.9.1 computed for them. A case is equal when every output is there, with its shape, its type and its values
within the case's tolerance. Cases run in processes of their own that are limited in time and memory; one
process runs many small cases after each other, and a new one takes over where one ends.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import multiprocessing
import os
import re
import resource
import sys
import tempfile
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

BARS = {
    "zoo": (54, 54),
    "op, upstream": (815, 795),
    "op, own": (370, 360),
    "op, random": (0, 0),
    "net": (26, 26),
    "legacy": (28, 28),
}
"""Row of the table -> how many cases are aimed at, for ONNX and for MindSpore; 0 where the bar is all."""


def loader(corpora: Path) -> Any:
    """The corpus's own loader, a module of the checkout."""
    spec = importlib.util.spec_from_file_location("mxnet_corpus", corpora / "corpus.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def row_of(case: Any) -> str:
    """The row of the table that counts a case."""
    if case.kind != "op":
        return str(case.kind)
    if case.meta.get("compare") == "shape":
        return "op, random"
    return "op, own" if case.meta.get("source") == "own" else "op, upstream"


def problems(case: Any, target: str, folder: Path) -> list[str]:
    """Convert a case, run it, and return what differs from MXNet's outputs."""
    import regraft

    prefix = folder / "case"
    case.write(str(prefix))
    inputs = case.inputs()
    graph = regraft.rewrite(regraft.load(f"{prefix}-symbol.json", inputs)).graph
    got = _onnx(graph, inputs, folder) if target == "onnx" else _mindspore(graph, folder)
    want = [o["dtype"] for o in case.meta["outputs"]]
    types = [
        f"output {n}: {a.dtype}, not {dtype}"
        for n, (a, dtype) in enumerate(zip(got, want, strict=False))
        if str(a.dtype) != dtype
    ]
    return [*case.check(got), *types]


def _onnx(graph: Any, inputs: dict[str, Any], folder: Path) -> list[Any]:
    import onnxruntime

    import regraft

    regraft.save(graph, folder / "model.onnx")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    session = onnxruntime.InferenceSession(
        str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"]
    )
    fed = {i.name: graph.origin.inputs.get(i.name, inputs.get(i.name)) for i in session.get_inputs()}
    return list(session.run(None, fed))


def _mindspore(graph: Any, folder: Path) -> list[Any]:
    from corpus_torch import emitted_net

    import regraft

    regraft.save(graph, folder / "emitted", to="mindspore")
    return emitted_net(folder / "emitted" / "model.py")(*graph.origin.inputs.values())


def _serve(pipe: Connection, corpora: Path, memory: float) -> None:
    """Run the cases that the pipe names, one after the other."""
    most = int(memory * 2**30)
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    corpus = loader(corpora).Corpus(str(corpora))
    while True:
        name, target = pipe.recv()
        with tempfile.TemporaryDirectory() as folder:
            try:
                found = problems(corpus.case(name), target, Path(folder))
            except Exception as error:  # whatever a case ends with is its result
                found = [f"{type(error).__name__}: {error}"]
        pipe.send(found)


class Worker:
    """A process that runs cases; it is replaced when it dies or takes too long."""

    def __init__(self, corpora: Path, options: argparse.Namespace) -> None:
        self._corpora, self._options = corpora, options
        self._process: Any = None

    def run(self, name: str, target: str) -> list[str]:
        """What is wrong with a case, nothing when it is equal."""
        if self._process is None:
            context = multiprocessing.get_context("fork")
            self._pipe, far = context.Pipe()
            arguments = (far, self._corpora, self._options.memory)
            self._process = context.Process(target=_serve, args=arguments, daemon=True)
            self._process.start()
            far.close()
        self._pipe.send((name, target))
        if not self._pipe.poll(self._options.timeout):
            return self._ended(f"more than {self._options.timeout:g} s")
        try:
            return list(self._pipe.recv())
        except EOFError:
            return self._ended("the process died")

    def _ended(self, why: str) -> list[str]:
        self._process.kill()
        self._process.join()
        self._process = None
        return [why]


def found_rows(corpora: Path, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """One record a case and target."""
    workers = {target: Worker(corpora, options) for target in options.target.split(",")}
    kinds = options.kind.split(",")
    for case in loader(corpora).Corpus(str(corpora)).cases():
        if case.kind not in kinds or not re.search(options.only, case.id):
            continue
        for target, worker in workers.items():
            yield {
                "id": case.id,
                "row": row_of(case),
                "target": target,
                "why": worker.run(case.id, target),
            }


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kind", default="zoo,op,net,legacy")
    parser.add_argument("--target", default="onnx,mindspore")
    parser.add_argument("--only", default="", help="a regular expression on the case's id")
    parser.add_argument("--timeout", type=float, default=120, help="seconds a case")
    parser.add_argument("--memory", type=float, default=10, help="GiB a process")
    parser.add_argument(
        "--rows", type=Path, help="keep what is found of every case in this file of JSON lines"
    )
    return parser.parse_args()


def main() -> None:
    """Print every case that fails with the reason, then the table."""
    options = arguments()
    place = os.environ.get("CORPORA", "")
    corpora = Path(place).expanduser().resolve()
    if not place or not (corpora / "corpus.py").is_file():
        sys.exit(
            f"expected CORPORA to name a checkout of the corpus (with corpus.py), got `{place}`\n"
            "hint: CORPORA=path/to/corpora/mxnet make corpus-mxnet"
        )
    counts: dict[tuple[str, str], list[int]] = {}
    with (options.rows or Path(os.devnull)).open("w") as kept:
        for row in found_rows(corpora, options):
            kept.write(json.dumps(row) + "\n")
            kept.flush()
            count = counts.setdefault((row["row"], row["target"]), [0, 0])
            count[0] += not row["why"]
            count[1] += 1
            if row["why"]:
                print(
                    f"{row['id']} {row['target']}: {' '.join('; '.join(row['why']).split())[:200]}",
                    flush=True,
                )
    for name, bars in BARS.items():
        cells = [
            f"{target} {counts[name, target][0]:4}/{counts[name, target][1]:<4} (bar {bar or 'all'})"
            for target, bar in zip(("onnx", "mindspore"), bars, strict=True)
            if (name, target) in counts
        ]
        if cells:
            print(f"{name:14}  " + "  ".join(cells))


if __name__ == "__main__":
    main()
