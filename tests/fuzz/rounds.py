"""One worker process after the other: a worker that dies or hangs is a failure of its input too."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

from .oracle import SECONDS

Failure = dict[str, str]
"""target, kind, what, detail; input as base64."""


def one_round(targets: str, seconds: float, seed: int) -> tuple[Counter[str], list[Failure]]:
    """Run a worker for a while.

    Args:
        targets: names, separated by commas; empty for all.
        seconds: how long.
        seed: of the mutations.

    Returns:
        How many inputs there were by target and exit code, and the failures.

    Raises:
        RuntimeError: when the worker did not even start.
    """
    return _worker(["--targets", targets, "--seconds", str(seconds), "--seed", str(seed)])


def fails_alone(failure: Failure) -> bool:
    """Whether an input fails in a new process too: memory that ran out may be what others left behind."""
    with tempfile.TemporaryDirectory(prefix="regraft-fuzz-") as scratch:
        path = Path(scratch) / "input"
        path.write_bytes(base64.b64decode(failure["input"]))
        return bool(_worker(["--targets", failure["target"], "--only", str(path)])[1])


def _worker(arguments: list[str]) -> tuple[Counter[str], list[Failure]]:
    """What one worker process found; see `one_round`."""
    with tempfile.TemporaryDirectory(prefix="regraft-fuzz-") as scratch:
        current, log = Path(scratch) / "current", Path(scratch) / "stderr"
        with log.open("w") as stderr:
            process = subprocess.Popen(
                [sys.executable, "-m", f"{__package__}.worker", *arguments, "--current", str(current)],
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                cwd=Path(__file__).parents[2],
            )
        threading.Thread(target=_watch, args=(process, current), daemon=True).start()
        assert process.stdout is not None
        rows = [json.loads(line) for line in process.stdout]
        code = process.wait()
        failures = [row for row in rows if "target" in row]
        codes = Counter(next((row["codes"] for row in rows if "codes" in row), {}))
        if code and not current.exists():
            raise RuntimeError(log.read_text(errors="replace")[-4000:])
        if code:
            name, _, data = current.read_bytes().partition(b"\n")
            row = {"target": name.decode(), "kind": "killed", "what": f"the process ended with {code}"}
            log_end = log.read_text(errors="replace")[-2000:]
            failures.append({**row, "detail": log_end, "input": base64.b64encode(data).decode()})
        return codes, failures


def _watch(process: subprocess.Popen[str], current: Path) -> None:
    """Kill a worker whose input has not changed for long: it hangs where no signal reaches."""
    while process.poll() is None:
        time.sleep(1)
        if current.exists() and time.time() - current.stat().st_mtime > 8 * SECONDS:
            process.kill()
            return
