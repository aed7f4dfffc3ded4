"""``python -m regraft.commands.sweeping.serving BYTES FD JUDGE``: judges the cases that standard input names.

Each is a line of JSON, ``{"case": …, "room": …}``; the answer is a line of JSON on the descriptor. The first
answer says that the judge is there. The process ends when its standard input does.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import queue
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from .case import VERDICTS
from .confined import confine, end_with_group, record_opened


def main() -> None:
    """Serve until standard input ends."""
    memory, descriptor, judge = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    confine(memory)
    lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(lines,), daemon=True).start()
    os.set_inheritable(descriptor, False)
    os.dup2(2, 1)  # what a case prints is no part of anything
    record_opened()
    try:
        run = function_of(judge)
    except BaseException as error:
        _tell(descriptor, {"verdict": "fault", "detail": f"`{judge}`: {_said(error)}"})
        return
    _tell(descriptor, {"verdict": "", "cpu": _cpu()})
    while True:
        _judge(descriptor, run, json.loads(lines.get()))


def function_of(name: str) -> Callable[..., Any]:
    """Return the function of "file.py:function"; what lies beside the file can be imported from then on."""
    where, _, function = name.rpartition(":")
    file = Path(where).resolve()
    sys.path.insert(0, str(file.parent))
    module = importlib.import_module(file.stem)
    return getattr(module, function)


def _read(lines: queue.SimpleQueue[bytes]) -> None:
    """Read all of standard input, and end this process with it."""
    with open(0, "rb", closefd=False) as stream:
        for line in stream:
            lines.put(line)
    end_with_group()


def _judge(descriptor: int, run: Callable[..., Any], asked: Mapping[str, Any]) -> None:
    """Answer with the verdict on a case, and what it used."""
    os.chdir(asked["room"])
    _reset_peak()
    before = _cpu()
    try:
        found: dict[str, Any] = _checked(run(asked["case"]))
    except MemoryError as error:
        found = {"verdict": "over memory", "detail": _said(error)}
    except BaseException as error:  # whatever a case ends with is its result
        found = _failed(error)
    found |= {"cpu": _cpu() - before, "memory": _peak()}
    _tell(descriptor, found)
    gc.collect()


def _checked(found: object) -> dict[str, Any]:
    """Return a judge's answer: a verdict, or a mapping with one."""
    answer = {"verdict": found} if isinstance(found, str) else found
    if not isinstance(answer, Mapping) or answer.get("verdict") not in VERDICTS:
        raise TypeError(
            f"expected a judge to return one of {', '.join(VERDICTS)} as `verdict`, got {found!r}"
        )
    return {str(key): value for key, value in answer.items()}


def _failed(error: BaseException) -> dict[str, Any]:
    from ...ir import RegraftError

    if isinstance(error, RegraftError):
        place = f" - at {error.place}" if error.place else ""
        return {"verdict": "refused", "detail": f"{error.message}{place}", "code": error.code}
    return {"verdict": "fault", "detail": _said(error)}


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _tell(descriptor: int, answer: Mapping[str, Any]) -> None:
    line = json.dumps(answer, default=str).encode() + b"\n"
    while line:
        line = line[os.write(descriptor, line) :]


def _cpu() -> float:
    found = os.times()
    return found.user + found.system + found.children_user + found.children_system


def _reset_peak() -> None:
    """Let the peak of memory count from now on, where the system can."""
    try:
        with Path("/proc/self/clear_refs").open("w") as file:
            file.write("5")
    except OSError:
        pass


def _peak() -> int:
    """Return the largest resident set, in bytes; 0 where the system does not say."""
    try:
        with Path("/proc/self/status").open() as file:
            return next((int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM")), 0)
    except OSError:
        return 0


if __name__ == "__main__":
    main()
