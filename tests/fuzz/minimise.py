"""Makes an input smaller as long as it fails in the same way."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from .oracle import attempt
from .registry import targets

_SECONDS = 20.0


def minimised(target: str, data: bytes, key: str) -> bytes:
    """The smallest input found within a while, in a process of its own."""
    arguments = [sys.executable, "-m", f"{__package__}.minimise", target, key]
    try:
        done = subprocess.run(arguments, input=data, capture_output=True, timeout=6 * _SECONDS, check=True)
        return base64.b64decode(done.stdout.splitlines()[-1])
    except (subprocess.SubprocessError, IndexError, ValueError):
        return data


def smaller(data: bytes, fails: Callable[[bytes], bool], seconds: float) -> bytes:
    """Take parts out as long as it fails: of a JSON document first, else of the bytes."""
    end = time.monotonic() + seconds
    improved = True
    while improved and time.monotonic() < end:
        improved = False
        for candidate in _candidates(data):
            if time.monotonic() > end:
                break
            if len(candidate) < len(data) and fails(candidate):
                data, improved = candidate, True
                break
    return data


def _candidates(data: bytes) -> Iterator[bytes]:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        size = len(data) // 2
        while size:
            for at in range(0, len(data), size):
                yield data[:at] + data[at + size :]
            size //= 2
        return
    from .mutation import _places

    for at in range(len(_places(document))):
        copy = json.loads(data)
        inside, key = _places(copy)[at]
        if isinstance(inside, (dict, list)):
            del inside[key]
            yield json.dumps(copy).encode("utf-8", "surrogatepass")


def main() -> None:
    """Minimise standard input for a target and a fault; print base64."""
    target, key = targets()[sys.argv[1]], sys.argv[2]
    with tempfile.TemporaryDirectory() as scratch:

        def fails(data: bytes) -> bool:
            _, fault = attempt(target, data, Path(scratch) / "case")
            return fault is not None and fault.key == key

        found = smaller(sys.stdin.buffer.read(), fails, _SECONDS)
    print()
    print(base64.b64encode(found).decode(), flush=True)


if __name__ == "__main__":
    main()
