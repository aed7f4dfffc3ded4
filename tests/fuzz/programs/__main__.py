"""`python -m tests.fuzz.programs`: random programs until stopped; the smallest that fails is printed."""

from __future__ import annotations

import argparse
import sys
import time

from .search import FRONTENDS, search


def main() -> None:
    """Command line of `make fuzz-programs`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frontend", choices=FRONTENDS, required=True)
    parser.add_argument("--seconds", type=float, default=0, help="how long; 0: until stopped")
    parser.add_argument(
        "--seed", type=int, default=None, help="of the first programs; the clock's by default"
    )
    given = parser.parse_args()
    seed = int(time.time()) if given.seed is None else given.seed
    end = time.monotonic() + (given.seconds or 1e9)
    failures = total = 0
    while time.monotonic() < end:
        failure = search(given.frontend, programs=20, seed=seed)
        failures += bool(failure)
        total += 20
        print(f"seed {seed}: {failure or 'equal'}", flush=True)
        seed += 1
    print(f"{total} programs, {failures} rounds with a failure")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
