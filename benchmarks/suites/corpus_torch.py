"""How many real PyTorch models convert and compute the same: the table of the corpora, one row a corpus.

    CORPORA=path/to/corpora/torch regraft sweep benchmarks/suites/torch.toml -o out/torch [--sample N]
    python benchmarks/suites/corpus_torch.py out/torch/rows.jsonl

The corpora are a checkout of their own: a runner, cases of torchvision (A), timm (B), transformers (C), of
torch's module (Dm) and operator (Do) databases, and one rule of comparison. Every case runs on the inputs it
was converted with, on fresh ones and at batch 3. `onnx` and `mindspore` below are what the runner calls:
(module, example inputs) -> what it shall run.
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

from verdicts import corpora_folder, imported, print_failures, read_rows, told, wrong

BARS = {
    "A": ("torchvision", 1.00, 0.95),
    "B": ("timm", 0.99, 0.95),
    "C": ("transformers", 0.97, 0.90),
    "Dm": ("module_db samples", 0.97, 0.92),
    "Do": ("op_db samples", 0.85, 0.75),
}
"""Corpus -> its name and what is aimed at for ONNX and for MindSpore."""

TARGETS = ("onnx", "mindspore")

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
    return imported(name, path)


def _leaves(results: Any) -> Iterator[Any]:
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
