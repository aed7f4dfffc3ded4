"""`python -m tests.fuzz`: fuzz in worker processes until stopped; each new failure is kept as a small file."""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from .minimise import minimised
from .oracle import SECONDS

_ROUND = 120.0
"""Seconds after which a worker is replaced: what leaks in a framework must not look like an input's doing."""


def main() -> None:
    """Command line of `make fuzz`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=0, help="how long; 0: until stopped")
    parser.add_argument("--seed", type=int, default=None, help="of the mutations; the clock's by default")
    parser.add_argument("--targets", default="", help="names, separated by commas; all by default")
    parser.add_argument("--out", type=Path, default=Path("out/fuzz"), help="where failures are kept")
    parser.add_argument(
        "--whole", action="store_true", help="keep failures as they are, without making them smaller"
    )
    parser.add_argument("--round", type=float, default=_ROUND, help="seconds of one worker")
    given = parser.parse_args()
    seed = int(time.time()) if given.seed is None else given.seed
    end = time.monotonic() + (given.seconds or 1e9)
    given.out.mkdir(parents=True, exist_ok=True)
    seen: dict[str, int] = {}
    total, start = 0, time.monotonic()
    while (left := end - time.monotonic()) > 1:
        count, rows = _round(given.targets, min(given.round, left), seed)
        total += count
        for row in rows:
            key = f"{row['target']} {row['kind']}: {row['what']}"
            seen[key] = seen.get(key, 0) + 1
            if seen[key] == 1:
                print(
                    f"NEW after {time.monotonic() - start:.0f} s: {key} -> {_keep(given.out, row, whole=given.whole)}",
                    flush=True,
                )
        print(
            f"{total} inputs, {len(seen)} distinct failures ({sum(seen.values())} in all), seed {seed}",
            flush=True,
        )
        seed += 1
    sys.exit(1 if seen else 0)


def _round(targets: str, seconds: float, seed: int) -> tuple[int, list[dict]]:
    """One worker: (number of inputs, its failures); a worker that dies or hangs is a failure itself."""
    with tempfile.TemporaryDirectory(prefix="regraft-fuzz-") as scratch:
        current = Path(scratch) / "current"
        arguments = [
            "--targets",
            targets,
            "--seconds",
            str(seconds),
            "--seed",
            str(seed),
            "--current",
            str(current),
        ]
        process = subprocess.Popen(
            [sys.executable, "-m", f"{__package__}.worker", *arguments],
            stdout=subprocess.PIPE,
            stderr=(Path(scratch) / "stderr").open("w"),
            text=True,
        )
        watch = threading.Thread(target=_watch, args=(process, current), daemon=True)
        watch.start()
        assert process.stdout is not None
        rows = [json.loads(line) for line in process.stdout]
        code = process.wait()
        count = sum(row.get("count", 0) for row in rows)
        rows = [row for row in rows if "count" not in row]
        if code and not current.exists():
            raise SystemExit((Path(scratch) / "stderr").read_text(errors="replace")[-4000:])
        if code:
            name, _, data = current.read_bytes().partition(b"\n")
            row = {
                "target": name.decode(),
                "kind": "killed",
                "what": f"the process ended with {code}",
                "detail": "",
            }
            rows.append({**row, "input": base64.b64encode(data).decode()})
        return count, rows


def _watch(process: subprocess.Popen, current: Path) -> None:
    """Kill a worker whose input has not changed for long: it hangs where no signal reaches."""
    while process.poll() is None:
        time.sleep(1)
        if current.exists() and time.time() - current.stat().st_mtime > 8 * SECONDS:
            process.kill()
            return


def _keep(out: Path, row: dict, *, whole: bool) -> Path:
    data = base64.b64decode(row["input"])
    if not whole and row["kind"] in ("exception", "exit", "message", "written", "executed"):
        data = minimised(row["target"], data, f"{row['kind']}: {row['what']}")
    folder = out / row["target"]
    folder.mkdir(parents=True, exist_ok=True)
    name = hashlib.sha256(f"{row['kind']}{row['what']}".encode()).hexdigest()[:12]
    (folder / name).write_bytes(data)
    (folder / f"{name}.txt").write_text(
        f"{row['kind']}: {row['what']}\n\n{row['detail']}\n", errors="replace"
    )
    return folder / name


if __name__ == "__main__":
    main()
