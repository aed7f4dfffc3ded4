"""`regraft rewrite a.onnx -o b.onnx` beside onnxslim and onnxsim: operators, bytes, and time in ONNX Runtime.

    python benchmarks/optimisers.py [--repeat N] [--model NAME]… [--store]

Times are CPU milliseconds of a run on one thread, without ONNX Runtime's own optimisations and with them,
medians of runs that take turns. Every optimised file has to compute what the file before it computes.
onnxslim and onnxsim are looked for on PYTHONPATH; `make optimisers` installs them into a folder.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from measuring import in_turns
from onnx_files import FILES

STORED = Path(__file__).with_name("optimisers.md")
CLOSE = 1e-3  # of the largest output: tools add up in other orders, and fold normalisations


def with_regraft(source: Path, target: Path) -> None:
    """What `regraft rewrite SOURCE -o TARGET` writes."""
    import regraft

    regraft.save(regraft.rewrite(regraft.load(str(source))).graph, target, force=True)


def with_onnxslim(source: Path, target: Path) -> None:
    """What `onnxslim SOURCE TARGET` writes."""
    import onnxslim  # type: ignore[import-not-found]

    onnxslim.slim(str(source), str(target))


def with_onnxsim(source: Path, target: Path) -> None:
    """What `onnxsim SOURCE TARGET` writes."""
    import onnx
    import onnxsim  # type: ignore[import-not-found]

    found, _ = onnxsim.simplify(onnx.load(source))
    onnx.save(found, target)


TOOLS: dict[str, Callable[[Path, Path], None]] = {
    "regraft": with_regraft,
    "onnxslim": with_onnxslim,
    "onnxsim": with_onnxsim,
}


def session(file: Path, *, optimised: bool) -> Any:
    """A session on one thread."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    if not optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])


def feeds(loaded: Any) -> dict[str, np.ndarray]:
    """Inputs of a model whose shapes are numbers."""
    draw = np.random.default_rng(0)
    found: dict[str, np.ndarray] = {}
    for each in loaded.get_inputs():
        if each.type == "tensor(float)":
            found[each.name] = draw.standard_normal(each.shape).astype(np.float32)
        else:
            found[each.name] = draw.integers(0, 1000, each.shape)
    return found


def nodes_in(file: Path) -> int:
    """How many nodes the main graph of a file has, but for Constants."""
    import onnx

    return sum(n.op_type != "Constant" for n in onnx.load(file, load_external_data=False).graph.node)


def measure(name: str, repeat: int, folder: Path) -> list[str]:
    """The rows of one model: the file as it was exported, then what each tool makes of it."""
    files = {"exported": folder / f"{name}.onnx"}
    FILES[name](files["exported"])
    for tool, optimise in TOOLS.items():
        if tool != "regraft" and importlib.util.find_spec(tool) is None:
            print(f"{tool} is not installed", file=sys.stderr)
            continue
        files[tool] = folder / f"{name}.{tool}.onnx"
        with contextlib.redirect_stdout(io.StringIO()):
            optimise(files["exported"], files[tool])
    given = feeds(session(files["exported"], optimised=False))
    expected = session(files["exported"], optimised=False).run(None, given)
    times: dict[tuple[str, bool], list[float]] = {}
    wrong: set[str] = set()
    for optimised in (False, True):
        loaded = {tool: session(file, optimised=optimised) for tool, file in files.items()}
        for tool, each in loaded.items():
            for found, wanted in zip(each.run(None, given), expected, strict=True):
                if np.abs(found - wanted).max() > CLOSE * max(1.0, float(np.abs(wanted).max())):
                    wrong.add(tool)
        jobs = {t: lambda each=each: each.run(None, given) for t, each in loaded.items()}
        times |= {(t, optimised): found for t, found in in_turns(jobs, repeat).items()}
    rows: list[str] = []
    for tool, file in files.items():
        cells = [name, tool + (" (WRONG)" if tool in wrong else ""), str(nodes_in(file))]
        cells.append(f"{file.stat().st_size / 1e3:.0f}")
        for optimised in (False, True):
            own, first = times[tool, optimised], times["exported", optimised]
            ratio = statistics.median(a / b for a, b in zip(own, first, strict=True))
            cells += [f"{statistics.median(own) * 1e3:.2f}", f"{ratio:.2f}"]
        rows.append(f"| {' | '.join(cells)} |")
    return rows


def main() -> None:
    """Print the table, and with --store write it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeat", type=int, default=15)
    parser.add_argument("--model", action="append", choices=list(FILES), help="default: all; may be repeated")
    parser.add_argument("--store", action="store_true", help=f"write {STORED.name}")
    options = parser.parse_args()
    lines = [
        "| model | file | nodes | kB | ms, unoptimised | ratio | ms, optimised | ratio |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    print("\n".join(lines), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for name in options.model or FILES:
            rows = measure(name, options.repeat, Path(folder))
            print("\n".join(rows), flush=True)
            lines += rows
    if options.store:
        STORED.write_text(
            "# ONNX files, optimised\n\n"
            "Made by `make optimisers`: CPU milliseconds of a run in ONNX Runtime on one thread, without\n"
            "its own optimisations and with them, and their ratios to the exported file's.\n\n"
            + "\n".join(lines)
            + "\n",
            encoding="utf-8",
        )


if __name__ == "__main__":
    main()
