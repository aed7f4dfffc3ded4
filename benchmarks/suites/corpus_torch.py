"""How many real PyTorch models convert and compute the same: the table of the corpora, one row a corpus.

    CORPORA=path/to/corpora/torch regraft sweep benchmarks/suites/torch.toml -o out/torch [--sample N]
    python benchmarks/suites/corpus_torch.py out/torch/rows.jsonl

The corpora are a checkout of their own: a runner, cases of torchvision (A), timm (B), transformers (C), of
torch's module (Dm) and operator (Do) databases, and one rule of comparison. Every case runs on the inputs it
was converted with, on fresh ones and at batch 3. `onnx`, `mindspore` and `torch` below are what the runner
calls: (module, example inputs) -> what it shall run.
"""

from __future__ import annotations

import argparse
import itertools
import logging
import os
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from verdicts import corpora_folder, imported, print_failures, read_rows, told, wrong

BARS = {
    "A": ("torchvision", 1.00, 0.95, 0.98),
    "B": ("timm", 0.99, 0.95, 0.98),
    "C": ("transformers", 0.97, 0.90, 0.98),
    "Dm": ("module_db samples", 0.97, 0.92, 0.98),
    "Do": ("op_db samples", 0.85, 0.75, 0.85),
}
"""Corpus -> its name and what is aimed at for ONNX, MindSpore and PyTorch source."""

TARGETS = ("onnx", "mindspore", "torch")

VERDICTS = {
    "ok": "equal",
    "ok_noise": "equal",
    "loose": "different",
    "mismatch": "different",
    "convert_error": "refused",
    "eager_error": "not judged",
}
"""What the runner says -> what a sweep says; anything else is a fault."""

_numbers = itertools.count()
_remaining: dict[str, Iterator[Any]] = {}


def onnx(module: Any, inputs: tuple[Any, ...]) -> dict[str, object]:
    """Convert to ONNX; the runner opens the file with ONNX Runtime."""
    import regraft

    graph = regraft.rewrite(regraft.load(module, inputs)).graph
    regraft.save(graph, "model.onnx")
    return {"onnx": "model.onnx"}


def mindspore(module: Any, inputs: tuple[Any, ...]) -> dict[str, object]:
    """Convert to MindSpore source, import it, and give the runner the net as a function of arrays."""
    return _emitted(module, inputs, "mindspore")


def torch(module: Any, inputs: tuple[Any, ...]) -> dict[str, object]:
    """Convert to PyTorch source, and the same."""
    return _emitted(module, inputs, "torch")


def _emitted(module: Any, inputs: tuple[Any, ...], to: str) -> dict[str, object]:
    import regraft

    graph = regraft.rewrite(regraft.load(module, inputs)).graph
    regraft.save(graph, "emitted", to=to)
    return {to: RUNNERS[to](Path("emitted") / "model.py")}


def run_emitted(graph: Any, folder: Path, to: str) -> list[Any]:
    """What the source of a graph for MindSpore or PyTorch gives on the graph's own inputs."""
    import regraft

    regraft.save(graph, folder / "emitted", to=to)
    arrays = [graph.origin.inputs[node.name] for node in graph.input_nodes()]
    return RUNNERS[to](folder / "emitted" / "model.py")(*arrays)


def mindspore_net(path: Path) -> Callable[..., list[Any]]:
    """The net that an emitted file builds, in PyNative mode, from arrays to arrays."""
    net = mindspore_module(path).build()
    import mindspore as ms

    def run(*arrays: Any) -> list[Any]:
        return [t.asnumpy() for t in _leaves(net(*[ms.Tensor(a) for a in arrays]))]

    return run


def torch_net(path: Path) -> Callable[..., list[Any]]:
    """The module that an emitted file builds, from arrays to arrays."""
    net = imported(module_name(), path).build()
    import torch

    def run(*arrays: Any) -> list[Any]:
        given = [a if isinstance(a, torch.Tensor) else torch.from_numpy(np.array(a)) for a in arrays]
        with torch.no_grad():
            results = net(*given)
        return [t if t.dtype == torch.bfloat16 else t.numpy() for t in _leaves(results)]

    return run


RUNNERS = {"mindspore": mindspore_net, "torch": torch_net}
"""Target -> what makes a function of arrays of its `model.py`."""


def mindspore_module(path: Path) -> Any:
    """An emitted file of MindSpore as a module, in PyNative mode."""
    from regraft.verification.runners.mindspore_cells import start

    start()
    import mindspore as ms

    ms.set_context(mode=ms.PYNATIVE_MODE)
    return imported(module_name(), path)  # MindSpore compiles what sys.modules holds


def module_name() -> str:
    """A name for an emitted module that no other has."""
    return f"emitted_{os.getpid()}_{next(_numbers)}"


def _leaves(results: Any) -> Iterator[Any]:
    if isinstance(results, dict):
        results = list(results.values())
    if isinstance(results, (list, tuple)):
        for result in results:
            yield from _leaves(result)
    else:
        yield results


def models() -> Iterator[dict[str, str]]:
    """The cases of whole models for a sweep."""
    return _cases("A", "B", "C")


def samples() -> Iterator[dict[str, str]]:
    """The cases of torch's own databases for a sweep."""
    return _cases("Dm", "Do")


def _cases(*names: str) -> Iterator[dict[str, str]]:
    """The public cases of corpora, those of one target after each other; of a library that is there."""
    corpora = corpora_folder("run.py")
    run = runner(corpora)
    for target in TARGETS:
        for corpus in names:
            for case in run.cases.iter_cases(corpus):
                if run.splitmod.is_public(case.id):
                    own = {"name": case.id, "step": target, "group": BARS[corpus][0]}
                    yield {**own, "corpora": str(corpora), "corpus": corpus}


@cache
def runner(corpora: Path) -> Any:
    """The corpora's own runner, a module of the checkout."""
    sys.path.insert(0, str(corpora))
    return imported("torch_corpora", corpora / "run.py")


def judge_case(case: dict[str, str]) -> dict[str, Any]:
    """The verdict on a case for a sweep: the runner's, in the folder that it expects."""
    corpora = Path(case["corpora"])
    run = runner(corpora)
    found: dict[str, Any] = {}
    options = argparse.Namespace(
        converter=f"{Path(__file__).stem}:{case['step']}", batch3=True, no_noise=False
    )
    logging.disable(logging.WARNING)
    run.one(_case(corpora, case["corpus"], case["name"]), options, found.update)
    verdict, why = found["verdict"], found.get("why", "")
    kept = {key: found[key] for key in ("convert_s", "convert_cpu_s", "params") if key in found}
    said = told([f"{verdict}: {why}"], VERDICTS.get(verdict, "fault"))
    return {**said, "data": {**said["data"], **kept}}


def _case(corpora: Path, corpus: str, name: str) -> Any:
    """A case by its name, looked for from where the last was found: a process gets them in their order."""
    for _ in range(2):
        for case in _remaining.setdefault(corpus, runner(corpora).cases.iter_cases(corpus)):
            if case.id == name:
                return case
        del _remaining[corpus]
    raise LookupError(f"the corpus has no case `{name}`")


def whole_operators(found: list[dict[str, Any]]) -> str:
    """Of how many operators every sample is equal; a sample's name is its operator's and a number."""
    operators: dict[str, bool] = {}
    for row in found:
        name = row["name"].rpartition("/")[0]
        operators[name] = operators.get(name, True) and not wrong(row)
    return f"all of {sum(operators.values())}/{len(operators)} operators"


def main() -> None:
    """Print every case that fails with the reason, then the table, of the rows of a sweep."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rows", type=Path)
    rows = list(read_rows(parser.parse_args().rows))
    print_failures(rows)
    for name, *bars in BARS.values():
        line = f"{name:20}"
        for target, bar in zip(TARGETS, bars, strict=True):
            counted = [row for row in rows if (row["group"], row["step"]) == (name, target)]
            equal = sum(not wrong(row) for row in counted)
            if counted:
                line += f"  {target} {equal:4}/{len(counted):<4} {equal / len(counted):6.1%} (bar {bar:.0%})"
                line += f", {whole_operators(counted)}" if name == BARS["Do"][0] else ""
        print(line)


if __name__ == "__main__":
    main()
