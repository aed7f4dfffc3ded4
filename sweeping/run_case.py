"""Runs a case: the command line in a process of its own, which nothing that a model does outlives."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from ..ir.outside.own_folders import OwnFolder, sweep
from .case import Case, Row
from .store import Store

_SAID = 64 * 2**20
"""Bytes that are read of what a command prints."""

_OUT_OF_MEMORY = (
    "bad_alloc",
    "MemoryError",
    "Cannot allocate memory",
    "can't allocate memory",
    "Unable to allocate",
)
"""What frameworks say when there is no more memory."""

_OUTPUT = {"onnx": "model.onnx"}
"""Target -> the file that it is asked for; a folder elsewhere."""


@dataclass(frozen=True, slots=True)
class _Ended:
    """How a process ended."""

    status: int | None
    seconds: float
    cpu: float
    memory: int


def run_case(case: Case, key: str, url: str, *, keep: bool) -> Row:
    """Run a case here, and put its row, and what it wrote, into the store.

    Args:
        case: what to run.
        key: digest of all that the verdict depends on.
        url: of the store.
        keep: whether what was written is kept.
    """
    parent = Path(tempfile.gettempdir())
    sweep(parent)
    own = OwnFolder(parent, "regraft-")
    try:
        room = own.path
        (room / "output").mkdir()
        ended = _run(case, room)
        verdict, detail, code = _judge(case, ended, _document(room / "said"), _tail(room / "complained"))
        row = Row(
            name=case.name,
            step=case.step,
            verdict=verdict,
            detail=detail,
            code=code,
            seconds=round(ended.seconds, 3),
            cpu=round(ended.cpu, 3),
            memory=ended.memory,
            key=key,
            host=platform.node(),
        )
        return Store(url).put(row, room / "output" if keep else None)
    finally:
        own.remove()


def command_of(case: Case, output: Path) -> list[str]:
    """Return the arguments of regraft's command line for a case."""
    if case.step == "check":
        return ["check", case.model, *case.arguments, "--json"]
    place = output / _OUTPUT.get(case.step, "model")
    return ["rewrite", case.model, "--to", case.step, "-o", str(place), *case.arguments, "--json"]


def _run(case: Case, room: Path) -> _Ended:
    """Run a case's command; its standard output and error go to files in `room`."""
    # -P: no module in the suite's folder is taken for one of Python's
    command = [sys.executable, "-P", "-m", "regraft.sweeping.limited", str(case.memory)]
    command += command_of(case, room / "output")
    began = time.monotonic()
    with (room / "said").open("wb") as said, (room / "complained").open("wb") as complained:
        process = subprocess.Popen(  # noqa: S603 - the suite names what it runs
            command,
            cwd=case.folder,
            stdin=subprocess.PIPE,
            stdout=said,
            stderr=complained,
            start_new_session=True,
        )
        try:
            status, cpu, memory = _wait(process, case.seconds)
        finally:
            _end(process)
    return _Ended(status, time.monotonic() - began, cpu, memory)


def _wait(process: subprocess.Popen[bytes], seconds: float) -> tuple[int | None, float, int]:
    """Return (exit status, CPU seconds, bytes) of a process; a status of None: it took too long."""
    until = time.monotonic() + seconds
    pause = 0.005
    while True:
        pid, status, used = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            scale = 1 if sys.platform == "darwin" else 1024
            return process.returncode, used.ru_utime + used.ru_stime, used.ru_maxrss * scale
        if time.monotonic() > until:
            _kill(process.pid)
            _, _, used = os.wait4(process.pid, 0)
            process.returncode = -signal.SIGKILL
            return None, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024
        time.sleep(pause)
        pause = min(pause * 1.5, 0.1)


def _kill(group: int) -> None:
    """Kill a process with all that it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):  # it is gone, or not yet the group's first
        os.killpg(group, signal.SIGKILL)


def _end(process: subprocess.Popen[bytes]) -> None:
    _kill(process.pid)
    if process.stdin is not None:
        process.stdin.close()
    if process.returncode is None:
        process.wait()


def _judge(case: Case, ended: _Ended, document: dict[str, Any], complained: str) -> tuple[str, str, str]:
    """Return (verdict, detail, code) of how a command ended and what it said."""
    if ended.status is None:
        return "over time", f"more than {case.seconds:g} s", ""
    if ended.status not in (0, 1, 2) and any(word in complained for word in _OUT_OF_MEMORY):
        return "over memory", f"more than {case.memory / 2**30:g} GiB", ""
    last = next((line for line in reversed(complained.splitlines()) if line.strip()), "")
    if ended.status == 3:
        return "fault", next((x for x in complained.splitlines() if x.startswith("internal error")), last), ""
    if ended.status not in (0, 1, 2):
        return "died", f"exit status {ended.status}{f': {last}' if last else ''}", ""
    error = cast("dict[str, Any]", document.get("error") or {})
    verified = cast("dict[str, Any]", document.get("verified") or {})
    code = str(error.get("code") or "")
    if ended.status == 2:
        message = str(error.get("message") or last)
        if any(word in message for word in _OUT_OF_MEMORY):
            return "over memory", f"more than {case.memory / 2**30:g} GiB: {message}", code
        place = error.get("place")
        return "refused", f"{message}{f' - at {place}' if place else ''}", code
    if case.step == "check":
        return _judge_findings(document)
    if verified:
        return str(verified["verdict"]), str(verified["summary"]), code
    if ended.status == 1:
        return "different", str(error.get("message") or last), code
    return "unproven", "not compared with the source", ""


def _judge_findings(document: dict[str, Any]) -> tuple[str, str, str]:
    if document.get("clean") is True:
        return "clean", "", ""
    found = cast("list[dict[str, Any]]", document.get("findings") or [{}])
    worst = next((f for f in found if f.get("severity") == "error"), found[0])
    further = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return "findings", f"{worst.get('message', '')}{further}", str(worst.get("code", ""))


def _document(path: Path) -> dict[str, Any]:
    """Return the JSON that a command printed; empty where it printed none."""
    if path.stat().st_size > _SAID:
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8", errors="replace"))
    except (ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _tail(path: Path) -> str:
    """Return the end of what a command complained about."""
    with path.open("rb") as file:
        file.seek(max(path.stat().st_size - 2**16, 0))
        return file.read().decode(errors="replace")
