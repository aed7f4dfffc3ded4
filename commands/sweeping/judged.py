"""Runs cases by a judge: many in one process, one after the other, a new process after one that fails."""

from __future__ import annotations

import json
import os
import platform
import select
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .case import LASTING, Case, Row
from .opened import Opened, read_opened
from .process import Process
from .run_case import blame_limits, ended, last_line, make_room, tail_of
from .store import Store

_IMPORT = 600.0
"""Seconds that a judge's imports may take."""


def run_judged(cases: Sequence[tuple[Case, str]], url: str, *, keep: bool) -> list[Row]:
    """Judge cases of one judge in one process, and put their rows, and what they wrote, into the store.

    A case that dies, or meets its limit of memory, after others in its process, is judged again in one of its
    own: the verdict is on it, and not on what others left there.

    Args:
        cases: of one judge, folder and limit of memory; each with the digest of what its verdict depends on.
        url: of the store.
        keep: whether what was written is kept.
    """
    store, rows = Store(url), list[Row]()
    worker: _Worker | None = None
    try:
        for case, key in cases:
            worker = worker or _Worker(case)
            row, opened = worker.judge(case, key)
            if row.verdict in ("over memory", "fault", "died") and worker.judged > 1:
                worker.end()
                worker = _Worker(case)
                row, opened = worker.judge(case, key)
            rows.append(store.put(row, worker.output if keep else None, opened))
            if row.verdict not in LASTING:
                worker.end()
                worker = None
    finally:
        if worker is not None:
            worker.end()
    return rows


class _Worker:
    """A process of a judge, with its folder."""

    def __init__(self, case: Case) -> None:
        self._own, self._folder = make_room(), Path(case.folder)
        self._room = self._own.path
        self.output = self._room / "output"
        self.judged = 0
        self._unread, (self._answers, theirs) = b"", os.pipe()
        file, _, function = case.judge.rpartition(":")
        judge = f"{self._folder / file}:{function}"
        command = ["regraft.commands.sweeping.serving", str(case.memory), str(theirs), judge]
        try:
            self._process = Process(command, self._folder, self._room, [theirs])
        finally:
            os.close(theirs)
        self._ready = self._answer(_IMPORT)
        self._used = float((self._ready or {}).get("cpu", 0.0))

    def judge(self, case: Case, key: str) -> tuple[Row, Opened]:
        """Return the row of a case, and the files that this process has opened."""
        began = time.monotonic()
        self.judged += 1
        shutil.rmtree(self.output, ignore_errors=True)
        self.output.mkdir(exist_ok=True)
        found = self._ready
        if found is not None and not found["verdict"]:
            os.truncate(self._room / "complained", 0)
            asked = {"case": json.loads(case.given), "room": str(self.output)}
            self._process.write(json.dumps(asked))
            found = self._answer(case.seconds)
        if found is None:
            found = self._ended(case)
        self._used += float(found.get("cpu", 0.0))
        data = found.get("data")
        row = Row(
            name=case.name,
            step=case.step,
            verdict=found["verdict"],
            detail=str(found.get("detail", "")),
            code=str(found.get("code", "")),
            seconds=round(time.monotonic() - began, 3),
            cpu=round(float(found.get("cpu", 0.0)), 3),
            memory=int(found.get("memory", 0)),
            key=key,
            host=platform.node(),
            group=case.group,
            data=data if isinstance(data, dict) else {},
        )
        limit = blame_limits(case, row.detail) if row.verdict in ("fault", "refused") else None
        if limit is not None:
            row = Row(**{**row.to_json(), "verdict": limit[0], "detail": limit[1]})
        return row, read_opened(self._room / "opened", self._folder, self._room, self._process.began)

    def end(self) -> None:
        """End the process and all that it started."""
        self._process.end()
        os.close(self._answers)
        self._own.remove()

    def _answer(self, seconds: float) -> dict[str, Any] | None:
        """Return the next answer; None where none comes, as the process ended or took too long."""

        def done(pause: float) -> bool:
            if select.select([self._answers], [], [], pause)[0]:
                read = os.read(self._answers, 2**20)
                self._unread += read
                return not read or b"\n" in self._unread
            return False

        self._in_time = self._process.wait(seconds, done)
        if b"\n" not in self._unread:  # it may have ended just after its answer
            done(0)
        line, newline, self._unread = self._unread.partition(b"\n")
        return json.loads(line) if newline else None

    def _ended(self, case: Case) -> dict[str, Any]:
        """Return the answer for a process that gave none, which is ended if it has not."""
        if self._in_time:
            self._process.wait(1)  # it closes its files a moment before it has ended
        self._process.end()
        used: dict[str, Any] = {
            "cpu": max(self._process.cpu - self._used, 0.0),
            "memory": self._process.memory,
        }
        if not self._in_time:
            return {"verdict": "over time", "detail": f"more than {case.seconds:g} s", **used}
        complained = tail_of(self._room / "complained")
        limit = blame_limits(case, complained)
        if limit is not None:
            return {"verdict": limit[0], "detail": limit[1], **used}
        last = last_line(complained)
        why = f"{ended(self._process.status)}{f': {last}' if last else ''}"
        return {"verdict": "died", "detail": why, **used}
