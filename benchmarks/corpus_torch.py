"""How many real PyTorch models convert and compute the same: the table of the corpora, one row a corpus.

    CORPORA=path/to/corpora/torch python benchmarks/corpus_torch.py [--sample N] [--corpus A,B,C,Dm,Do]
    CORPORA=path/to/corpora/torch python benchmarks/corpus_torch.py --rows FOLDER --resume    # goes on

The corpora are a checkout of their own: a runner, cases of torchvision (A), timm (B), transformers (C), of
torch's module (Dm) and operator (Do) databases, and one rule of comparison. Every case runs in a process of
its own, on the inputs it was converted with, on fresh ones and at batch 3. `onnx` and `mindspore` below are
what the runner calls: (module, example inputs) -> what it shall run.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

BARS = {
    "A": ("torchvision", 1.00, 0.95),
    "B": ("timm", 0.99, 0.95),
    "C": ("transformers", 0.97, 0.90),
    "Dm": ("module_db samples", 0.97, 0.92),
    "Do": ("op_db samples", 0.85, 0.75),
}
"""Corpus -> its name and what is aimed at for ONNX and for MindSpore."""

EQUAL = ("ok", "ok_noise")
"""The runner's verdicts of a case that computes the same."""

_numbers = itertools.count()


def onnx(module: Any, inputs: tuple[Any, ...]) -> dict[str, object]:
    """Convert to ONNX; the runner opens the file with ONNX Runtime."""
    import regraft

    graph = regraft.rewrite(regraft.load(module, inputs)).graph
    regraft.save(graph, "model.onnx")
    return {"onnx": "model.onnx"}


def mindspore(module: Any, inputs: tuple[Any, ...]) -> dict[str, object]:
    """Convert to MindSpore source, import it, and give the runner the net as a function of arrays."""
    import regraft

    graph = regraft.rewrite(regraft.load(module, inputs)).graph
    regraft.save(graph, "emitted", to="mindspore")
    return {"mindspore": emitted_net(Path("emitted") / "model.py")}


def run_emitted(graph: Any, folder: Path) -> list[Any]:
    """What the MindSpore source of a graph gives on the graph's own inputs."""
    import regraft

    regraft.save(graph, folder / "emitted", to="mindspore")
    return emitted_net(folder / "emitted" / "model.py")(*graph.origin.inputs.values())


def emitted_net(path: Path) -> Callable[..., list[Any]]:
    """The net that an emitted file builds, in PyNative mode, from arrays to arrays."""
    net = emitted_module(path).build()
    import mindspore as ms

    def run(*arrays: Any) -> list[Any]:
        return [t.asnumpy() for t in _leaves(net(*[ms.Tensor(a) for a in arrays]))]

    return run


def emitted_module(path: Path) -> Any:
    """An emitted file as a module, in PyNative mode."""
    from regraft.verification.runners.mindspore_cells import start

    start()
    import mindspore as ms

    ms.set_context(mode=ms.PYNATIVE_MODE)
    name = f"emitted_{os.getpid()}_{next(_numbers)}"  # MindSpore compiles what sys.modules holds
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    emitted = importlib.util.module_from_spec(spec)
    sys.modules[name] = emitted
    spec.loader.exec_module(emitted)
    return emitted


def _leaves(results: Any) -> Iterator[Any]:
    if isinstance(results, (list, tuple)):
        for result in results:
            yield from _leaves(result)
    else:
        yield results


def cases(corpora: Path, corpus: str) -> int:
    """How many public cases a corpus has."""
    names = json.loads((corpora / "public.json").read_text())
    return sum(name.startswith(f"{corpus}/") for name in names)


def rows(
    corpora: Path, corpus: str, target: str, folder: Path, options: argparse.Namespace
) -> list[dict[str, Any]]:
    """What the runner says of every case, or of a sample spread over the corpus."""
    every = max(1, math.ceil(cases(corpora, corpus) / options.sample)) if options.sample else 1
    here = Path(__file__).resolve().parent
    out = folder / f"{target}.{corpus}.jsonl"
    command = [sys.executable, "-B", "run.py", "--path", str(here), "--out", str(out), "--batch3"]
    command += ["--converter", f"{Path(__file__).stem}:{target}", "--corpus", corpus]
    command += ["--every", str(every), "--timeout", str(options.timeout), "--only", options.only]
    command += ["--mem-gib", str(options.memory), "--preimport", "onnxruntime,torch.export,regraft"]
    command += ["--resume"] if options.resume else []
    subprocess.run(command, cwd=corpora, check=True)
    return [json.loads(line) for line in out.read_text().splitlines()]


def whole_operators(found: list[dict[str, Any]]) -> str:
    """Of how many operators every sample is equal; a sample's id is its operator's and a number."""
    operators: dict[str, bool] = {}
    for row in found:
        name = row["id"].rpartition("/")[0]
        operators[name] = operators.get(name, True) and row["verdict"] in EQUAL
    return f"all of {sum(operators.values())}/{len(operators)} operators"


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sample", type=int, default=0, help="this many cases of each corpus; 0 for all")
    parser.add_argument("--corpus", default="A,B,C,Dm,Do")
    parser.add_argument("--target", default="onnx,mindspore")
    parser.add_argument("--only", default="", help="a regular expression on the case's id")
    parser.add_argument("--timeout", type=float, default=300, help="seconds a case")
    parser.add_argument(
        "--memory",
        type=float,
        default=14,
        help="GiB a case: its rounding noise is measured on a float64 twin",
    )
    parser.add_argument("--rows", type=Path, help="keep what is found of every case in this folder")
    parser.add_argument("--resume", action="store_true", help="go on with the cases that --rows has not")
    return parser.parse_args()


def main() -> None:
    """Print the table, and every case that fails with the reason."""
    options = arguments()
    place = os.environ.get("CORPORA", "")
    corpora = Path(place).expanduser().resolve()
    if not place or not (corpora / "run.py").is_file():
        sys.exit(
            f"expected CORPORA to name a checkout of the corpora (with run.py), got `{place}`\n"
            "hint: CORPORA=path/to/corpora/torch make corpus-torch SAMPLE=10"
        )
    with tempfile.TemporaryDirectory() as scratch:
        folder = (options.rows or Path(scratch)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        print_table(corpora, folder, options)


def print_table(corpora: Path, folder: Path, options: argparse.Namespace) -> None:
    """Run the cases, and print the failures and the table."""
    table: list[str] = []
    failed: list[str] = []
    for corpus in options.corpus.split(","):
        name, *bars = BARS[corpus]
        line = f"{name:20}"
        for target, bar in zip(("onnx", "mindspore"), bars, strict=True):
            if target not in options.target.split(","):
                continue
            found = rows(corpora, corpus, target, folder, options)
            counted = [r for r in found if r["verdict"] != "eager_error"]
            wrong = [r for r in counted if r["verdict"] not in EQUAL]
            equal = len(counted) - len(wrong)
            line += (
                f"  {target} {equal:4}/{len(counted):<4} {equal / max(len(counted), 1):6.1%} (bar {bar:.0%})"
            )
            line += f", {whole_operators(counted)}" if corpus == "Do" else ""
            failed += [
                f"{r['id']} {target}: {r['verdict']} {' '.join(r.get('why', '').split())[:200]}"
                for r in wrong
            ]
        table.append(line)
    print("\n".join([*failed, *table]))


if __name__ == "__main__":
    main()
