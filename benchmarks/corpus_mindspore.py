"""How many real MindSpore Cells convert and compute the same: one row a kind of case, one column a target.

    pip install --no-deps --target FOLDER mindcv==0.3.0 tqdm pyyaml
    CORPORA=path/to/corpora/mindspore PYTHONPATH=FOLDER python benchmarks/corpus_mindspore.py [--kind zoo,ops]

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
import importlib.util
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import traceback
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from corpus_torch import emitted_net

KINDS = {"mindcv": 21, "zoo": 19, "ops": 194}
"""The kinds of cases, and how many there are."""
TARGETS = ("onnx", "mindspore")
CLOSE = 1e-4
"""The largest difference, as a share of the largest number or of 1, that is equal."""


# -- one case, in a process of its own ----------------------------------------------------------------------


def judge(corpora: Path, name: str, targets: Sequence[str]) -> dict[str, str]:
    """Return for each target "ok" or what is wrong."""
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
        return dict.fromkeys(targets, _first_line(error))
    changed = [key for key, was in before.items() if state_of(net)[key] != was]
    if changed:
        return dict.fromkeys(targets, f"the Cell is changed: {', '.join(changed)}")
    found: dict[str, str] = {}
    for target in targets:
        try:
            run = CONVERTED[target](graph)
            wrong = [mismatch(e, run(arrays)) for e, arrays in zip(expected, given, strict=True)]
            found[target] = next(("; ".join(w) for w in wrong if w), "ok")
        except Exception as error:  # the same
            found[target] = _first_line(error)
    return found


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


def _as_mindspore(graph: Any) -> Callable[[Sequence[Any]], list[Any]]:
    """Save as MindSpore source; the emitted net in PyNative mode."""
    import regraft

    regraft.save(graph, "emitted", to="mindspore")
    net = emitted_net(Path("emitted") / "model.py")
    return lambda arrays: net(*[a for a in arrays if a is not None])


CONVERTED = {"onnx": _as_onnx, "mindspore": _as_mindspore}


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


# -- all cases ----------------------------------------------------------------------------------------------


def run_case(name: str, options: argparse.Namespace) -> dict[str, str]:
    """Return the verdicts on a case, judged in a process of its own within bounds of time and memory."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(Path(__file__).resolve()), "--one", name, "--target", options.target]
        command += ["--memory", str(options.memory)]
        try:
            done = subprocess.run(
                command, timeout=options.timeout, cwd=folder, env=_environment(), capture_output=True
            )
        except subprocess.TimeoutExpired:
            return dict.fromkeys(options.target.split(","), f"more than {options.timeout:.0f} s")
        verdicts = Path(folder) / "verdicts.json"
        if verdicts.exists():
            return json.loads(verdicts.read_text())
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or [""]
        return dict.fromkeys(options.target.split(","), f"died with {done.returncode}: {last[0]}")


def _environment() -> dict[str, str]:
    """One thread, convolutions that are not ten times slower, and paths that hold in another folder."""
    paths = [str(Path(p).resolve()) for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
    defaults = {"ONEDNN_MAX_CPU_ISA": "AVX2", "GLOG_v": "4"}
    own = {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(paths)}
    return {**defaults, **os.environ, **own, "CORPORA": str(_corpora())}


def _corpora() -> Path:
    place = os.environ.get("CORPORA", "")
    corpora = Path(place).expanduser().resolve()
    if not place or not (corpora / "index.json").is_file():
        sys.exit(
            f"expected CORPORA to name a checkout of the corpus (with index.json), got `{place}`\n"
            "hint: CORPORA=path/to/corpora/mindspore make corpus-mindspore"
        )
    return corpora


def _require_mindcv(kinds: Sequence[str]) -> None:
    if "mindcv" in kinds and importlib.util.find_spec("mindcv") is None:
        sys.exit(
            "expected mindcv to be importable, got no such module\n"
            "hint: pip install --no-deps --target FOLDER mindcv==0.3.0 tqdm pyyaml, and set "
            "PYTHONPATH=FOLDER; or leave it out: --kind zoo,ops"
        )


def arguments() -> argparse.Namespace:
    """Return the command line's options."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kind", default=",".join(KINDS))
    parser.add_argument("--target", default=",".join(TARGETS))
    parser.add_argument("--only", default="", help="cases whose name holds this")
    parser.add_argument("--timeout", type=float, default=300, help="seconds a case")
    parser.add_argument("--memory", type=float, default=16, help="GiB of address space a case")
    parser.add_argument("--rows", type=Path, help="append the verdict on every case to this file")
    parser.add_argument("--resume", action="store_true", help="leave out the cases that --rows has")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    """Print the failures by reason, and the table."""
    options = arguments()
    if options.one:
        judge_alone(options)
    kinds = options.kind.split(",")
    corpora = _corpora()
    _require_mindcv(kinds)
    names = [n for n, _, kind in json.loads((corpora / "index.json").read_text()) if kind in kinds]
    verdicts: dict[str, dict[str, str]] = {}
    if options.resume and options.rows.exists():
        verdicts = dict(map(json.loads, options.rows.read_text().splitlines()))
    for name in names:
        if options.only in name and name not in verdicts:
            verdicts[name] = run_case(name, options)
            if options.rows:
                with options.rows.open("a") as rows:
                    rows.write(json.dumps([name, verdicts[name]]) + "\n")
    print_table(verdicts, options.target.split(","))


def judge_alone(options: argparse.Namespace) -> None:
    """Judge one case, and end the process without MindSpore's own ending, which is slow and may crash."""
    size = int(options.memory * 2**30)
    resource.setrlimit(resource.RLIMIT_AS, (size, size))
    try:
        found = judge(_corpora(), options.one, options.target.split(","))
        Path("verdicts.json").write_text(json.dumps(found))
    except BaseException:
        traceback.print_exc()
    sys.stderr.flush()
    os._exit(0)


def print_table(verdicts: dict[str, dict[str, str]], targets: Sequence[str]) -> None:
    """Print the failures, those of one reason together, and how many cases of each kind are right."""
    reasons: dict[str, list[str]] = defaultdict(list)
    right: Counter[tuple[str, str]] = Counter()
    total: Counter[str] = Counter()
    for name, found in verdicts.items():
        kind = name.partition(":")[0]
        total[kind] += 1
        for target in targets:
            right[kind, target] += found[target] == "ok"
            if found[target] != "ok":
                reasons[found[target]].append(f"{name} {target}")
    for reason, cases in sorted(reasons.items(), key=lambda item: -len(item[1])):
        print(f"{reason}\n    {', '.join(cases)}")
    print(f"{'kind':10}{'cases':>6}" + "".join(f"{target:>12}" for target in targets))
    for kind, count in total.items():
        print(f"{kind:10}{count:6}" + "".join(f"{right[kind, target]:12}" for target in targets))


if __name__ == "__main__":
    main()
