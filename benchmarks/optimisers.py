"""`regraft rewrite a.onnx -o b.onnx` beside onnxslim and onnxsim: operators, bytes, and time in ONNX Runtime.

    python benchmarks/optimisers.py [--rounds N] [--repeat N] [--model NAME]… [--store]

Times are CPU milliseconds of a run on one thread, without ONNX Runtime's own optimisations and with them. The
sessions of all files take turns in one process, in an order that changes; a ratio is the median of the ratios
of the turns, so that what slows the machine slows both. Rounds have sessions of their own, since where a
session's memory lies is part of its speed: the figure is the median of the rounds, and the noise half their
spread. The exported file stands there twice, to show what equal files differ by. Every optimised file has to
compute what the file before it computes.
onnxslim and onnxsim are looked for on PYTHONPATH; `make optimisers` installs them into a folder.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from onnx_files import FILES

STORED = Path(__file__).with_name("optimisers.md")
LEAST = 4e-3  # seconds that a job runs in a turn: a clock's steps and a switch of processes say nothing then
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


Times = dict[str, list[float]]
"""File -> seconds of its runs, turn by turn."""


class Ratio(NamedTuple):
    """How long one file takes beside another: the median of rounds, and half their spread."""

    median: float
    noise: float

    @classmethod
    def of(cls, rounds: Sequence[Times], one: str, other: str) -> Ratio:
        """Compare two files turn by turn."""
        found = [
            statistics.median(a / b for a, b in zip(times[one], times[other], strict=True))
            for times in rounds
        ]
        return cls(statistics.median(found), (max(found) - min(found)) / 2)

    def text(self) -> str:
        """The ratio and its noise."""
        return f"{self.median:.3f} ± {self.noise:.3f}"


def in_changing_turns(jobs: Mapping[str, Callable[[], object]], repeat: int, seed: int) -> Times:
    """Seconds of a run of each job, turn by turn; in a turn each is run until `LEAST` has gone."""
    order, times = random.Random(seed), Times()  # noqa: S311 - no secret
    counts: dict[str, int] = {}
    for name, job in jobs.items():
        job()
        start = time.thread_time()
        job()
        counts[name] = max(1, round(LEAST / max(time.thread_time() - start, 1e-6)))
    count = max(counts.values())  # as many runs of each, that what a turn costs is the same
    for _ in range(repeat):
        for name in order.sample(list(jobs), len(jobs)):
            start = time.thread_time()
            for _ in range(count):
                jobs[name]()
            times.setdefault(name, []).append((time.thread_time() - start) / count)
    return times


def nodes_in(file: Path) -> int:
    """How many nodes the main graph of a file has, but for Constants."""
    import onnx

    return sum(n.op_type != "Constant" for n in onnx.load(file, load_external_data=False).graph.node)


def measure(name: str, rounds: int, repeat: int, folder: Path) -> tuple[list[str], list[str]]:
    """The rows of one model: the exported file and what each tool makes of it; then ours beside the best."""
    files = {"exported": folder / f"{name}.onnx"}
    FILES[name](files["exported"])
    files["exported, again"] = files["exported"]
    for tool, optimise in TOOLS.items():
        if tool != "regraft" and importlib.util.find_spec(tool) is None:
            print(f"{tool} is not installed", file=sys.stderr)
            continue
        files[tool] = folder / f"{name}.{tool}.onnx"
        with contextlib.redirect_stdout(io.StringIO()):
            optimise(files["exported"], files[tool])
    given = feeds(session(files["exported"], optimised=False))
    expected = session(files["exported"], optimised=False).run(None, given)
    wrong: set[str] = set()
    cells = {tool: [str(nodes_in(file)), f"{file.stat().st_size / 1e3:.0f}"] for tool, file in files.items()}
    beside = [name]
    for optimised in (False, True):
        times: list[Times] = []
        for number in range(rounds):
            loaded = {tool: session(file, optimised=optimised) for tool, file in files.items()}
            for tool, each in loaded.items():
                for found, wanted in zip(each.run(None, given), expected, strict=True):
                    if np.abs(found - wanted).max() > CLOSE * max(1.0, float(np.abs(wanted).max())):
                        wrong.add(tool)
            jobs = {t: lambda each=each: each.run(None, given) for t, each in loaded.items()}
            times.append(in_changing_turns(jobs, repeat, number))
        for tool in files:
            median = statistics.median(time for found in times for time in found[tool])
            cells[tool] += [f"{median * 1e3:.2f}", Ratio.of(times, tool, "exported").text()]
        others = {
            tool: Ratio.of(times, "regraft", tool) for tool in TOOLS if tool != "regraft" and tool in files
        }
        best = max(others, key=lambda tool: others[tool].median, default="")
        beside += [best, others[best].text()] if best else ["", ""]
    rows = [
        f"| {' | '.join([name, tool + (' (WRONG)' if tool in wrong else ''), *found])} |"
        for tool, found in cells.items()
    ]
    return rows, [f"| {' | '.join(beside)} |"]


def main() -> None:
    """Print the table, and with --store write it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--repeat", type=int, default=25, help="turns of a round")
    parser.add_argument("--model", action="append", choices=list(FILES), help="default: all; may be repeated")
    parser.add_argument("--store", action="store_true", help=f"write {STORED.name}")
    options = parser.parse_args()
    lines = [
        "| model | file | nodes | kB | ms, unoptimised | ratio | ms, optimised | ratio |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    beside = [
        "| model | fastest other, unoptimised | our ratio | fastest other, optimised | our ratio |",
        "|---|---|---:|---|---:|",
    ]
    print("\n".join(lines), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for name in options.model or FILES:
            rows, ours = measure(name, options.rounds, options.repeat, Path(folder))
            print("\n".join([*rows, *ours]), flush=True)
            lines += rows
            beside += ours
    if options.store:
        STORED.write_text(
            "# ONNX files, optimised\n\n"
            "Made by `make optimisers`: CPU milliseconds of a run in ONNX Runtime on one thread, without\n"
            "its own optimisations and with them. Sessions take turns; a ratio is the median of the turns'\n"
            f"ratios, over {options.rounds} rounds of own sessions; the noise is half their spread.\n"
            "The exported file stands there twice: equal files differ by as much.\n\n"
            "Beside the fastest of the other tools:\n\n"
            + "\n".join(beside)
            + "\n\nBeside the exported file:\n\n"
            + "\n".join(lines)
            + "\n",
            encoding="utf-8",
        )


if __name__ == "__main__":
    main()
