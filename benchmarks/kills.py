"""Kills `regraft rewrite --force` at random moments, and counts outputs that are neither the old nor the new.

    python benchmarks/kills.py [--kills N] [--seed N] [--out FILE.jsonl]

A model is written over the output of another, from every source to every target, and the process gets
SIGKILL: half of the runs after a random time, half (without the verification) at a random call that changes
the file system, of which most are in the moments in which files are put in place. Weights in shards are
converted with `--stream` too, which verifies files while they are still being written. After each kill every
file has to be the old or every file the new one; the next run has to end well, and to leave nothing of the
killed one.

Each run is a fork of this process, which imports what a run needs, and runs nothing: a fork has none of the
threads that OpenMP keeps after its first use, and would wait for them without end.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from importlib import import_module
from itertools import cycle, product
from pathlib import Path

import numpy as np

os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX2")  # MindSpore's convolutions: before it is imported
os.environ.setdefault("GLOG_v", "4")

TORCH = """
from torch import nn


class Net(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.conv = nn.Conv2d(3, width, 3)
        self.norm = nn.BatchNorm2d(width)
        self.head = nn.Linear(width, 5)

    def forward(self, x):
        return self.head(self.norm(self.conv(x)).relu().mean((2, 3)))
"""
MINDSPORE = """
from mindspore import nn, ops


class Net(nn.Cell):
    def __init__(self, width=4):
        super().__init__()
        self.conv = nn.Conv2d(3, width, 3, pad_mode="valid")
        self.norm = nn.BatchNorm2d(width)
        self.head = nn.Dense(width, 5)

    def construct(self, x):
        return self.head(ops.relu(self.norm(self.conv(x))).mean((2, 3)))
"""
SHARDED = """
from torch import nn


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first = nn.Linear(256, width)
        self.second = nn.Linear(width, 256)

    def forward(self, x):
        return self.second(self.first(x).relu())
"""
TARGETS = ("onnx", "mindspore", "mxnet")
EVENTS = ("os.rename", "os.symlink", "os.link", "os.remove", "os.rmdir", "os.mkdir", "os.chmod", "shutil.")
"""Audited calls that change the file system, besides those that open a file to write."""

Words = list[str]
"""Of a command line, after ``regraft``."""

Files = dict[str, str]
"""Digests by name."""


@dataclass(frozen=True, slots=True)
class Job:
    """One source and target: the command of each of two models, and what it writes.

    Attributes:
        blind: further words for runs that are killed at a call.
        seconds: what a run takes.
        steps: calls that change the file system in one with `blind`.
    """

    source: str
    target: str
    folder: Path
    commands: tuple[Words, Words]
    blind: Words
    outputs: tuple[Files, Files]
    seconds: float
    steps: int


def main() -> None:
    """Kill, look, run again, look; end with 1 where anything was not as it should be."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="append a row a kill to this file, one JSON object a line")
    options = parser.parse_args()
    chance = np.random.default_rng(options.seed)
    with tempfile.TemporaryDirectory() as scratch:
        tempfile.tempdir = os.environ["TMPDIR"] = str(Path(scratch) / "tmp")
        Path(tempfile.tempdir).mkdir()
        jobs = list(prepared(Path(scratch)))
        rows: list[dict[str, object]] = []
        for number, job in zip(range(options.kills), cycle(jobs), strict=False):
            rows.append(killed(job, chance, timed=number // len(jobs) % 2 == 0))
            if options.out:
                with options.out.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(rows[-1]) + "\n")
    print(summary(rows))
    sys.exit(any(row["mixed"] or row["wrong after"] or row["left after"] for row in rows))


def summary(rows: list[dict[str, object]]) -> str:
    """One sentence: what was done and what was found."""
    counts = {name: sum(bool(row[name]) for row in rows) for name in rows[0] if name != "job"}
    return (
        f"{len(rows)} runs of 3 sources to 3 targets, and in pieces of 1 to 2, {counts['killed']} killed "
        "before their end: "
        f"{counts['old']} left the old output, {counts['new']} the new one, {counts['mixed']} a mixed one; "
        f"{counts['left']} left temporary folders, {counts['left after']} of them after the next run, which "
        f"failed or wrote anything else {counts['wrong after']} times"
    )


def prepared(scratch: Path) -> Iterator[Job]:
    """Every source and target, with both models written once."""
    models = scratch / "models"
    models.mkdir()
    for name, code in (("torch", TORCH), ("mindspore", MINDSPORE), ("sharded", SHARDED)):
        (models / f"{name}_net.py").write_text(code)
    _import_libraries(["rewrite", f"{models / 'torch_net.py'}:Net", *_SIZE, "-o", str(scratch / "warm.onnx")])
    named = {
        name: [[f"{models / name}_net.py:Net", *_SIZE, "--arg", f"width={width}"] for width in (4, 6)]
        for name in ("torch", "mindspore")
    }
    for (name, words), target in product({**named, "mxnet": _symbols(models)}.items(), TARGETS):
        yield _written(scratch, name, target, words, ["--no-verify"])
    shards = _shards(models)
    for target in ("onnx", "mindspore"):
        yield _written(scratch, "sharded", target, shards, [])


_SIZE = ["--input", "2x3x8x8"]


def _import_libraries(command: Words) -> None:
    """Import all that a command and MindSpore do, for the forks to come, without running any of it here."""
    parent, child = os.pipe()
    if not os.fork():
        code = 70
        try:
            code = _run_quietly(command)
            with os.fdopen(child, "w") as file:
                file.write("\n".join(sys.modules))
        finally:
            os._exit(code)
    os.close(child)
    with os.fdopen(parent) as file:
        names = file.read().split()
    if os.waitstatus_to_exitcode(os.wait()[1]):
        raise SystemExit("torch to ONNX fails")
    for name in [*names, "mindspore"]:
        with contextlib.suppress(ImportError):  # a module that another one makes
            import_module(name)


def _written(scratch: Path, source: str, target: str, words: list[Words], blind: Words) -> Job:
    """Write both models of a source, one over the other."""
    folder = scratch / f"{source}_{target}"
    output = folder / "net.onnx" if target == "onnx" else folder
    rest = ["--to", target, "-o", str(output), "--force"]
    one, other = (["rewrite", *first, *rest] for first in words)
    began = time.monotonic()
    failed = ran(one)
    seconds, found = time.monotonic() - began, [files_of(folder)]
    if failed or ran([*other, *blind], count=scratch / "steps"):
        raise SystemExit(f"{source} to {target} fails")
    found.append(files_of(folder))
    if found[0].keys() != found[1].keys() or not all(a != found[1][n] for n, a in found[0].items()):
        raise SystemExit(f"{source} to {target}: both models give the same file")
    steps = int((scratch / "steps").read_text())
    return Job(source, target, folder, (one, other), blind, (found[0], found[1]), seconds, steps)


def _symbols(models: Path) -> list[list[str]]:
    """Two MXNet symbols, made of the two modules."""
    found = []
    for width in (4, 6):
        folder = models / f"mxnet{width}"
        command = ["rewrite", f"{models / 'torch_net.py'}:Net", "--arg", f"width={width}", "--to", "mxnet"]
        if ran([*command, *_SIZE, "-o", str(folder)]):
            raise SystemExit("no symbols can be made")
        found.append([str(next(folder.glob("*-symbol.json"))), *_SIZE])
    return found


def _shards(models: Path) -> list[Words]:
    """Two models whose weights, of some megabytes, lie in two files; all is written behind its reader."""
    from safetensors.numpy import save_file

    found, chance = list[Words](), np.random.default_rng(1)
    for width in (4096, 4352):
        folder = models / f"shards{width}"
        folder.mkdir()
        places = dict[str, str]()
        for name, shape in (("first", (width, 256)), ("second", (256, width))):
            values = {"weight": shape, "bias": shape[:1]}
            tensors = {f"{name}.{n}": chance.random(s, np.float32) / 64 for n, s in values.items()}
            save_file(tensors, folder / f"{name}.safetensors")
            places |= dict.fromkeys(tensors, f"{name}.safetensors")
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
        words = [f"{models / 'sharded_net.py'}:Net", "--arg", f"width={width}", "--input", "2x256", "--meta"]
        found.append([*words, "--params", str(folder), "--max-shard-size", "5MB", "--stream"])
    return found


def killed(job: Job, chance: np.random.Generator, *, timed: bool) -> dict[str, object]:
    """Write the other model over the one that is there, with a kill; then run once more to the end."""
    before = files_of(job.folder)
    new = 0 if before == job.outputs[1] else 1
    if timed:
        at, step = float(chance.uniform(0, job.seconds)), 0
    else:
        at, step = 0.0, int(chance.integers(1, job.steps + 1))
    blind = [*job.commands[new], *job.blind]
    status = ran(job.commands[new] if timed else blind, at, step)
    after, left = files_of(job.folder), leftovers(job.folder)
    failed = ran(blind)
    when = f"{at:.2f} s" if timed else f"call {step} of {job.steps}"
    return {
        "job": f"{job.source} to {job.target}, at {when}",
        "killed": status == -signal.SIGKILL,
        "old": after == before,
        "new": after == job.outputs[new],
        "mixed": after not in (before, job.outputs[new]),
        "left": left,
        "wrong after": bool(failed) or files_of(job.folder) != job.outputs[new],
        "left after": leftovers(job.folder),
    }


def ran(command: Words, seconds: float = 0, step: int = 0, count: Path | None = None) -> int:
    """Run a command line in a fork; its exit code, or minus the signal that ended it.

    Args:
        command: words after ``regraft``.
        seconds: after which it is killed; 0 for never.
        step: the call that changes the file system at which it kills itself; 0 for none.
        count: a file that is given the number of such calls.
    """
    child = os.fork()
    if not child:
        code = 70
        try:
            code = _run_quietly(command, step, count)
        finally:
            os._exit(code)
    end = time.monotonic() + seconds
    while seconds and time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    if seconds:
        os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _run_quietly(command: Words, step: int = 0, count: Path | None = None) -> int:
    """Run a command line in this process, which is a fork of its own; its exit code."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    from regraft.cli import invoke
    from regraft.ir.outside import own_folders

    own_folders._sweep_once.cache_clear()  # a process of its own would not have swept yet
    seen = 0

    def watch(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal seen
        if event.startswith(EVENTS) or (event == "open" and _writes(arguments[2])):
            seen += 1
            if seen == step:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)
    code = invoke(command)
    if count is not None:
        count.write_text(str(seen))
    return code


def _writes(flags: object) -> bool:
    """Whether a file is opened to write."""
    return isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR))


def files_of(folder: Path) -> Files:
    """What a reader of the folder sees: through links, without folders of ours."""
    return {
        path.name: sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.iterdir())
        if path.is_file()
    }


def leftovers(folder: Path) -> list[str]:
    """Temporary folders, and links that are no files yet."""
    own = [p for where in (folder, folder.parent, Path(tempfile.gettempdir())) for p in where.iterdir()]
    found = {p.name for p in own if p.name.startswith((".regraft-", "regraft-"))}
    return sorted(found | {p.name for p in folder.iterdir() if p.is_symlink()})


if __name__ == "__main__":
    main()
