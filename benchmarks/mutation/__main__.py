"""How many planted faults the verification catches: one row a net, target and kind of fault.

python -m regraft.benchmarks.mutation [--each N] [--net NAME]... [--target NAME]... [--out FILE.jsonl]
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX2")  # MindSpore's convolutions: before it is imported
os.environ.setdefault("GLOG_v", "4")


def main() -> None:
    """Judge the mutants, net by net, each in a process of its own."""
    from .samples import labels

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--each", type=int, default=1, help="mutants of every kind, net and target; 0 for all"
    )
    parser.add_argument("--net", action="append", help="default: all; may be repeated")
    parser.add_argument("--target", action="append", help="default: all; may be repeated")
    parser.add_argument("--kind", action="append", help="default: all; may be repeated")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--out", type=Path, help="keep every mutant's row in this file, one JSON object a line"
    )
    parser.add_argument("--patience", type=float, default=180, help="seconds of silence: a mutant hangs")
    parser.add_argument("--store", action="store_true", help="put the result into the tree")
    options = parser.parse_args()
    nets = [n for n in labels() if not options.net or n in options.net]
    found: list[dict[str, object]] = []
    lock = threading.Lock()
    kept = options.out.open("w", encoding="utf-8") if options.out else None

    def judge(net: str) -> None:
        count = 0
        for row in rows(net, options):
            count += 1
            with lock:
                found.append(row)
                if kept is not None:
                    kept.write(json.dumps(row) + "\n")
                    kept.flush()
        print(f"{net}: {count}", file=sys.stderr, flush=True)

    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(judge, nets))
    from .equivalents import unused
    from .stored import key_of, store
    from .table import render

    found.sort(key=key_of)
    print(render(found))
    for row in unused(key_of(row) for row in found):
        print(f"equivalent.json: no mutant of this run matches {row}")
    if options.store:
        store(found, options.each)


def rows(net: str, options: argparse.Namespace) -> Iterator[dict[str, object]]:
    """Every mutant's row of a net; one at which the worker dies or hangs is invalid, and the rest goes on."""
    done: list[str] = []
    for _ in range(40):
        at, dead = "", ""
        with tempfile.NamedTemporaryFile("w", suffix=".keys") as skip:
            skip.write("\n".join(done))
            skip.flush()
            command = [
                sys.executable,
                "-m",
                "regraft.benchmarks.mutation.worker",
                net,
                "--each",
                str(options.each),
            ]
            command += ["--skip", skip.name]
            for name in ("target", "kind"):
                command += [word for value in getattr(options, name) or [] for word in (f"--{name}", value)]
            with tempfile.TemporaryFile("w+") as errors:
                process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
                assert process.stdout is not None
                for line in _lines(process.stdout, options.patience):
                    if line is None:
                        dead = f"no answer in {options.patience:g} s"
                        process.kill()
                        break
                    said = json.loads(line)
                    if "start" in said:
                        at = said["start"]
                        done += [at] if at.count(" | ") >= 3 else []
                    else:
                        yield said["row"]
                code = process.wait()
                errors.seek(0)
                last = next(reversed([t for t in errors.read().splitlines() if t.strip()]), "")
        if not code and not dead:
            return
        parts = at.split(" | ", 3)
        if len(parts) < 4:  # not a mutant: the right target itself is refused, or the net cannot be made
            yield {
                "net": net,
                "target": parts[-1],
                "kind": "",
                "place": "",
                "verdict": "refused",
                "why": dead or last[:300],
            }
            return
        keys = ("net", "target", "kind", "place")
        why = dead or f"the process ended with {code}: {last[:150]}"
        yield {**dict(zip(keys, parts, strict=True)), "verdict": "invalid", "why": why}


def _lines(stream: IO[str], patience: float) -> Iterator[str | None]:
    """The lines of a process; None where it is silent for longer than `patience` seconds."""
    lines: queue.Queue[str] = queue.Queue()

    def read() -> None:
        for line in stream:
            if line.startswith("{"):
                lines.put(line)
        lines.put("")

    threading.Thread(target=read, daemon=True).start()
    while True:
        try:
            line = lines.get(timeout=patience)
        except queue.Empty:
            yield None
            return
        if not line:
            return
        yield line


if __name__ == "__main__":
    main()
