"""How many real MindSpore Cells convert and compute the same: one row a kind of case, one column a target.

    pip install --no-deps --target FOLDER mindcv==0.3.0 tqdm pyyaml
    CORPORA=corpora/mindspore PYTHONPATH=FOLDER regraft sweep benchmarks/suites/mindspore.toml -o out/ms
    python benchmarks/suites/corpus_mindspore.py out/ms/rows.jsonl

The corpus is a checkout of its own: networks of mindcv, a zoo of small nets (sharing, control flow, in-place
writes, recurrence), and one Cell for each operator call that MindSpore runs on a CPU. Every case runs in a
process of its own and counts for each target alone. It is right when what is converted gives what the Cell
gave in PyNative mode before it was converted, on the case's inputs and on fresh ones, and when the Cell is
afterwards what it was: names, values, flags, modes, caches and random states.
"""

from __future__ import annotations

import argparse
import copy
import hashlib
import json
import os
import random
import sys
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from corpus_torch import RUNNERS
from verdicts import corpora_folder, read_rows, told, wrong

for _name, _value in {"ONEDNN_MAX_CPU_ISA": "AVX2", "GLOG_v": "4", "OMP_NUM_THREADS": "1"}.items():
    os.environ.setdefault(_name, _value)  # convolutions that are not ten times slower, and one thread

TARGETS = ("onnx", "mindspore", "torch")
CLOSE = 1e-4
"""The largest difference, as a share of the largest number or of 1, that is equal."""


class Converted(NamedTuple):
    """A Cell that was converted.

    Attributes:
        graph: the rewritten graph.
        given: the inputs: the case's, and fresh ones where results are not drawn at random.
        expected: what the Cell gave for each.
        wrong: what went wrong before; then the others are empty.
    """

    graph: Any = None
    given: tuple[list[Any], ...] = ()
    expected: tuple[list[Any], ...] = ()
    wrong: str = ""


def judge(corpora: Path, name: str, targets: Sequence[str]) -> dict[str, str]:
    """Return for each target "ok" or what is wrong."""
    converted = convert(corpora, name)
    if converted.wrong:
        return dict.fromkeys(targets, converted.wrong)
    found: dict[str, str] = {}
    for target in targets:
        try:
            run = CONVERTED[target](converted.graph)
            pairs = zip(converted.expected, converted.given, strict=True)
            differing = [mismatch(expected, run(arrays)) for expected, arrays in pairs]
            found[target] = next(("; ".join(d) for d in differing if d), "ok")
        except Exception as error:  # whatever a conversion raises is what is measured
            found[target] = _first_line(error)
    return found


@lru_cache(maxsize=1)  # a process judges a Cell for one target, and then for the other
def convert(corpora: Path, name: str) -> Converted:
    """Run a Cell of the corpus, and convert it."""
    sys.path.insert(0, str(corpora))
    from regraft.frontends.mindspore_cell import capture

    capture.start_mindspore()
    import cases  # the corpus's  # pyright: ignore[reportMissingImports]

    net, inputs = cases.make(name)
    given = [_arrays(inputs), fresh_inputs(corpora, name, inputs)]
    expected = [_run(net, arrays) for arrays in given]
    if mismatch(expected[0], _run(net, given[0])):  # random, or a kernel that is right once (negative pads)
        del given[1:], expected[1:]
    before = state_of(net)
    try:
        import regraft

        graph = regraft.rewrite(regraft.load(net, given[0])).graph
    except Exception as error:  # whatever a conversion raises is what is measured
        return Converted(wrong=_first_line(error))
    changed = [key for key, was in before.items() if state_of(net)[key] != was]
    if changed:
        return Converted(wrong=f"the Cell is changed: {', '.join(changed)}")
    return Converted(graph, tuple(given), tuple(expected))


def _as_onnx(graph: Any) -> Callable[[Sequence[Any]], list[Any]]:
    """Save as ONNX; what ONNX Runtime makes of the file."""
    import onnxruntime

    import regraft

    regraft.save(graph, "model.onnx")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    session = onnxruntime.InferenceSession("model.onnx", options)
    names = [i.name for i in session.get_inputs()]

    def run(arrays: Sequence[Any]) -> list[Any]:
        tensors = [a for a in arrays if a is not None]
        return list(session.run(None, dict(zip(names, tensors, strict=True))))

    return run


def _as_source(graph: Any, to: str) -> Callable[[Sequence[Any]], list[Any]]:
    """Save as source; the emitted net."""
    import regraft

    regraft.save(graph, f"emitted_{to}", to=to)
    net = RUNNERS[to](Path(f"emitted_{to}") / "model.py")
    return lambda arrays: net(*[a for a in arrays if a is not None])


CONVERTED = {"onnx": _as_onnx, **{to: partial(_as_source, to=to) for to in RUNNERS}}


def _run(net: Any, arrays: Sequence[Any]) -> list[Any]:
    from mindspore import Tensor

    return list(_leaves(net(*[None if a is None else Tensor(a) for a in arrays])))


def _leaves(results: Any) -> list[Any]:
    if isinstance(results, dict):
        results = list(results.values())
    if isinstance(results, (list, tuple)):
        return [leaf for result in results for leaf in _leaves(result)]
    return [] if results is None else [results.asnumpy() if hasattr(results, "asnumpy") else results]


def _arrays(inputs: Sequence[Any]) -> list[Any]:
    return [None if i is None else i.asnumpy() for i in inputs]


def fresh_inputs(corpora: Path, name: str, inputs: Sequence[Any]) -> list[Any]:
    """Return inputs of another draw: by the case's own expressions, or standard normal."""
    import numpy as np

    kind, _, own = name.partition(":")
    if kind == "ops":
        import ophelp  # the corpus's  # pyright: ignore[reportMissingImports]

        case = next(c for c in json.loads((corpora / "ops.json").read_text()) if c["id"] == own)
        ophelp.reseed(zlib.crc32(own.encode()) % 10000 + 1)
        names = {n: getattr(ophelp, n) for n in dir(ophelp)}
        return [np.asarray(eval(e, names)) for e in case["inputs"]]  # noqa: S307 - the corpus is code
    normal = np.random.default_rng(1).standard_normal
    return [None if i is None else normal(i.shape).astype(i.asnumpy().dtype) for i in inputs]


def mismatch(expected: Sequence[Any], got: Sequence[Any]) -> list[str]:
    """Return what differs between the results of two runs."""
    import numpy as np

    if len(expected) != len(got):
        return [f"{len(got)} results, expected {len(expected)}"]
    found: list[str] = []
    for number, (e, g) in enumerate(zip(map(np.asarray, expected), map(np.asarray, got), strict=True)):
        where = f"result {number}: "
        if (e.shape, e.dtype) != (g.shape, g.dtype):
            found.append(f"{where}{g.dtype}{list(g.shape)}, expected {e.dtype}{list(e.shape)}")
        elif e.dtype.kind not in "fc":
            found += [f"{where}other integers"] if (e != g).any() else []
        else:
            finite = np.isfinite(e)
            scale = max(1.0, float(np.abs(e[finite]).max(initial=0)))
            wide = e[finite].astype("c16" if e.dtype.kind == "c" else "f8")
            worst = float(np.abs(wide - g[finite]).max(initial=0)) / scale
            same = np.array_equal(e[~finite], g[~finite], equal_nan=True)
            found += [] if worst < CLOSE and same else [f"{where}off by {worst:.1e}"]
    return found


def state_of(net: Any) -> dict[str, str]:
    """Return a digest of each thing about a net, and about the process, that a conversion must not change."""
    import mindspore as ms
    import numpy as np

    cells = list(net.cells_and_names())
    parameters = [(path, p) for path, cell in cells for p in cell.get_parameters(expand=False)]
    plain = (bool, int, float, str, type(None))
    found = {
        "names": [(path, id(p), p.name) for path, p in parameters],
        "values": [(p.dtype, p.asnumpy().tobytes()) for _, p in parameters],
        "parameters' flags": [(p.requires_grad, p.layerwise_parallel) for _, p in parameters],
        "classes": [(path, id(cell), id(type(cell))) for path, cell in cells],
        "modes": [(cell.training, copy.copy(cell.get_flags())) for _, cell in cells],
        "attributes": [
            {k: v if isinstance(v, plain) else id(v) for k, v in vars(cell).items()} for _, cell in cells
        ],
        "caches": [len(getattr(cell, "compile_cache", ())) for _, cell in cells],
        "random states": (random.getstate(), np.random.get_state(), ms.get_seed(), _generator_state()),
        "mode": ms.get_context("mode"),
    }
    return {k: hashlib.sha256(repr(v).encode()).hexdigest() for k, v in found.items()}


def _generator_state() -> object:
    import mindspore as ms

    return ms.get_rng_state().asnumpy().tolist()


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:300]


def cases() -> Iterator[dict[str, str]]:
    """The cases for a sweep, all targets of a Cell after each other: they share what was converted."""
    corpora = corpora_folder("index.json")
    for name, _, kind in json.loads((corpora / "index.json").read_text()):
        for target in TARGETS:
            yield {"name": name, "step": target, "group": kind, "process": name, "corpora": str(corpora)}


def judge_case(case: dict[str, str]) -> dict[str, Any]:
    """The verdict on a case for a sweep."""
    target = case["step"]
    found = judge(Path(case["corpora"]), case["name"], [target])[target]
    refused = found.startswith(("UnsupportedError", "ModelError", "UsageError"))
    return told(
        [found] if found != "ok" else [], "equal" if found == "ok" else "refused" if refused else "different"
    )


def main() -> None:
    """Print the failures by reason, and the table, of the rows of a sweep."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rows", type=Path)
    reasons: dict[str, list[str]] = defaultdict(list)
    right: Counter[tuple[str, str]] = Counter()
    total: Counter[str] = Counter()
    for row in read_rows(parser.parse_args().rows):
        right[row["group"], row["step"]] += not wrong(row)
        total[row["group"]] += row["step"] == TARGETS[0]
        if wrong(row):
            reasons["; ".join(wrong(row))].append(f"{row['name']} {row['step']}")
    for reason, named in sorted(reasons.items(), key=lambda item: -len(item[1])):
        print(f"{reason}\n    {', '.join(named)}")
    print(f"{'kind':10}{'cases':>6}" + "".join(f"{target:>12}" for target in TARGETS))
    for kind, count in total.items():
        print(f"{kind:10}{count:6}" + "".join(f"{right[kind, target]:12}" for target in TARGETS))


if __name__ == "__main__":
    main()
