"""Runs a case: the command line in a process of its own, which nothing that a model does outlives."""

from __future__ import annotations

import contextlib
import json
import platform
import signal
import tempfile
import time
from pathlib import Path
from typing import Any, cast

from ...ir.outside.own_folders import OwnFolder, sweep
from .case import Case, Row
from .opened import read_opened
from .process import PRINTED, Process
from .store import Store

_OUT_OF_MEMORY = (
    "bad_alloc",
    "MemoryError",
    "Cannot allocate memory",
    "can't allocate memory",
    "Unable to allocate",
    "not enough memory",
)
"""Messages of frameworks and of regraft when memory runs out; case does not matter."""

_OUT_OF_OTHERS = (
    "No space left on device",
    "Disk quota exceeded",
    "File too large",
    "Too many open files",
    "Read-only file system",
    "can't start new thread",
    "Resource temporarily unavailable",
)
"""Messages when a resource of the machine, not of the model, runs out; case does not matter."""

_OUTPUT = {"onnx": "model.onnx"}
"""Target -> the file that it is asked for; a folder elsewhere."""


def run_case(case: Case, key: str, url: str, *, keep: bool) -> Row:
    """Run a case here, and put its row, and what it wrote, into the store.

    Args:
        case: what to run.
        key: digest of all that the verdict depends on.
        url: of the store.
        keep: whether what was written is kept.
    """
    own, folder = make_room(), Path(case.folder)
    try:
        room = own.path
        (room / "output").mkdir()
        began = time.monotonic()
        command = ["regraft.commands.sweeping.limited", str(case.memory), *command_of(case, room / "output")]
        process = Process(command, folder, room)
        try:
            in_time = process.wait(case.seconds)
        finally:
            process.end()
        status = process.status if in_time else None
        said, complained = _document(room / "said"), tail_of(room / "complained")
        verdict, detail, code = _judge(case, status, said, complained)
        row = Row(
            name=case.name,
            step=case.step,
            verdict=verdict,
            detail=detail,
            code=code,
            seconds=round(time.monotonic() - began, 3),
            cpu=round(process.cpu, 3),
            memory=process.memory,
            key=key,
            host=platform.node(),
            group=case.group,
        )
        opened = read_opened(room / "opened", folder, room, process.began)
        return Store(url).put(row, room / "output" if keep else None, opened)
    finally:
        own.remove()


def make_room() -> OwnFolder:
    """Make a temporary folder for a case, after deleting those that killed runs left."""
    parent = Path(tempfile.gettempdir())
    sweep(parent)
    return OwnFolder(parent, "regraft-")


def command_of(case: Case, output: Path) -> list[str]:
    """Return the arguments of regraft's command line for a case."""
    if case.step == "check":
        return ["check", case.model, *case.arguments, "--json"]
    place = output / _OUTPUT.get(case.step, "model")
    return ["rewrite", case.model, "--to", case.step, "-o", str(place), *case.arguments, "--json"]


def blame_limits(case: Case, message: str) -> tuple[str, str] | None:
    """Return (verdict, detail) of a message that names a limit, the case's or the machine's."""
    said = message.lower()  # errors of regraft are in lower case
    if any(words.lower() in said for words in _OUT_OF_MEMORY):
        return "over memory", f"more than {case.memory / 2**30:g} GiB"
    words = next((words for words in _OUT_OF_OTHERS if words.lower() in said), None)
    return None if words is None else ("fault", f"{words}: {message}")


def _judge(case: Case, status: int | None, document: dict[str, Any], complained: str) -> tuple[str, str, str]:
    """Return (verdict, detail, code) of how a command ended and what it said; a status of None: too late."""
    if status is None:
        return "over time", f"more than {case.seconds:g} s", ""
    told = status in (0, 1, 2)
    limit = None if told else blame_limits(case, complained)
    if limit is not None:
        return *limit, ""
    last = last_line(complained)
    if status == 3:
        return "fault", next((x for x in complained.splitlines() if x.startswith("internal error")), last), ""
    if not told:
        return "died", f"{ended(status)}{f': {last}' if last else ''}", ""
    error = cast("dict[str, Any]", document.get("error") or {})
    verified = cast("dict[str, Any]", document.get("verified") or {})
    code = str(error.get("code") or "")
    if status == 2:
        message = str(error.get("message") or last)
        limit = blame_limits(case, message)
        if limit is not None:
            return limit[0], f"{limit[1]}: {message}" if limit[0] == "over memory" else limit[1], code
        place = error.get("place")
        return "refused", f"{message}{f' - at {place}' if place else ''}", code
    if not document:
        return "died", f"exit status {status}, and no result{f': {last}' if last else ''}", ""
    if case.step == "check":
        return _judge_findings(document)
    if verified:
        return *_hold_to(case.tolerance, verified), code
    if status == 1:
        return "different", str(error.get("message") or last), code
    return "unproven", "not compared with the source", ""


def _hold_to(tolerance: float, verified: dict[str, Any]) -> tuple[str, str]:
    """Return (verdict, detail) of a comparison, which a suite's own tolerance can only make worse."""
    verdict, summary = str(verified["verdict"]), str(verified["summary"])
    if verdict != "equal" or not tolerance:
        return verdict, summary
    rows = cast("list[dict[str, Any]]", verified["outputs"])
    apart = {  # numbers are texts where they are infinite; beyond its own bound rounding decides a row
        f"{row['name']} at {row['case']}": float(row["max_rel"])
        for row in rows
        if row["max_rel"] is not None and float(row["max_abs"]) <= float(row["tolerance"])
    }
    worst = max(apart, key=apart.__getitem__, default="")
    if not worst or apart[worst] <= tolerance:
        return verdict, summary
    return "different", f"{worst}: {apart[worst]:.2g} relative apart, the suite's tolerance is {tolerance:g}"


def _judge_findings(document: dict[str, Any]) -> tuple[str, str, str]:
    if document.get("clean") is True:
        return "clean", "", ""
    found = cast("list[dict[str, Any]]", document.get("findings") or [{}])
    worst = next((f for f in found if f.get("severity") == "error"), found[0])
    further = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return "findings", f"{worst.get('message', '')}{further}", str(worst.get("code", ""))


def _document(path: Path) -> dict[str, Any]:
    """Return the JSON that a command printed; empty where it printed none."""
    if path.stat().st_size > PRINTED:
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8", errors="replace"))
    except (ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def tail_of(path: Path) -> str:
    """Return the end of what a process complained about."""
    with path.open("rb") as file:
        file.seek(max(path.stat().st_size - 2**16, 0))
        return file.read().decode(errors="replace")


def last_line(complained: str) -> str:
    """Return the last line that says something, and is no hint."""
    said = (line for line in reversed(complained.splitlines()) if line.strip())
    return next((line for line in said if not line.startswith("hint: ")), "")


def ended(status: int | None) -> str:
    """Return how a process ended: its exit status, or the signal that ended it."""
    if status is not None and status < 0:
        with contextlib.suppress(ValueError):  # a signal without a name
            return f"ended by {signal.Signals(-status).name}"
    return f"exit status {status}"
