"""Judges the mutants of one net in a process of its own, one JSON line each: a mutant may kill the process.

python -m regraft.benchmarks.mutation.worker NET --each N [--target NAME]... [--skip KEY-FILE]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from .judging import Judge
from .mutants import sampled
from .samples import Sample, labels
from .sharing import shared_runs


def main() -> None:
    """Print ``start`` lines with the key of what is tried next, and ``row`` lines with the outcome."""
    parser = argparse.ArgumentParser()
    parser.add_argument("net", choices=labels())
    parser.add_argument("--each", type=int, default=1, help="mutants of each kind and target; 0 for all")
    parser.add_argument("--target", action="append")
    parser.add_argument("--kind", action="append")
    parser.add_argument("--skip", type=Path, help="a file with the keys of mutants that are done already")
    options = parser.parse_args()
    done = set(options.skip.read_text().splitlines()) if options.skip else set()
    with tempfile.TemporaryDirectory() as scratch, shared_runs():
        sample = Sample(options.net, Path(scratch) / "right")
        (Path(scratch) / "right").mkdir()
        for target in sample.targets:
            if options.target and target not in options.target:
                continue
            say("start", f"{sample.label} | {target}")
            judge = Judge(sample, target, Path(scratch))
            for mutant in sampled(sample.mutants(target), options.each, f"{sample.label} | {target}"):
                key = f"{sample.label} | {target} | {mutant.name}"
                if key in done or (options.kind and mutant.kind not in options.kind):
                    continue
                say("start", key)
                outcome = judge.outcome(mutant)
                if outcome is not None:
                    say("row", outcome.to_json())


def say(what: str, value: object) -> None:
    """One line for the parent."""
    print(json.dumps({what: value}), flush=True)


if __name__ == "__main__":
    sys.exit(main())
