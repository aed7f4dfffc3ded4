"""`python -m tests.fuzz`: fuzz in worker processes until stopped; new failures are kept as small files."""

from __future__ import annotations

import argparse
import base64
import hashlib
import sys
import time
from collections import Counter
from pathlib import Path

from .minimise import minimised
from .rounds import Failure, fails_alone, one_round

_ROUND = 120.0
"""Seconds after which a worker is replaced: what leaks in a framework must not look like an input's doing."""


def main() -> None:
    """Command line of `make fuzz`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=0, help="how long; 0: until stopped")
    parser.add_argument("--seed", type=int, default=None, help="of the mutations; the clock's by default")
    parser.add_argument("--targets", default="", help="names, separated by commas; all by default")
    parser.add_argument("--out", type=Path, default=Path("out/fuzz"), help="where failures are kept")
    parser.add_argument("--whole", action="store_true", help="keep failures without making them smaller")
    parser.add_argument("--round", type=float, default=_ROUND, help="seconds of one worker")
    given = parser.parse_args()
    seed = int(time.time()) if given.seed is None else given.seed
    start = time.monotonic()
    end = start + (given.seconds or 1e9)
    seen: Counter[str] = Counter()
    total: Counter[str] = Counter()
    while (left := end - time.monotonic()) > 1:
        codes, failures = one_round(given.targets, min(given.round, left), seed)
        total += codes
        for failure in failures:
            if failure["kind"] in ("memory", "killed") and not fails_alone(failure):
                continue
            key = f"{failure['target']} {failure['kind']}: {failure['what']}"
            seen[key] += 1
            if seen[key] == 1:
                kept = _keep(given.out, failure, whole=given.whole)
                print(f"NEW after {time.monotonic() - start:.0f} s: {key} -> {kept}", flush=True)
        found = f"{len(seen)} distinct failures ({seen.total()} in all)"
        print(f"{total.total()} inputs, {found}, seed {seed}", flush=True)
        seed += 1
    print(", ".join(f"{name}: {count}" for name, count in sorted(total.items())))
    sys.exit(1 if seen else 0)


def _keep(out: Path, failure: Failure, *, whole: bool) -> Path:
    """Write the input, and beside it what it did."""
    data = base64.b64decode(failure["input"])
    said = f"{failure['kind']}: {failure['what']}"
    if not whole and failure["kind"] not in ("time", "memory", "killed"):
        data = minimised(failure["target"], data, said)
    folder = out / failure["target"]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / hashlib.sha256(said.encode()).hexdigest()[:12]
    path.write_bytes(data)
    path.with_suffix(".txt").write_text(f"{said}\n\n{failure['detail']}\n", errors="replace")
    return path


if __name__ == "__main__":
    main()
