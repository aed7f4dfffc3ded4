"""Processes of cases: limited in time and in what they print, ended with all that they started."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

COOKIE = "REGRAFT_CASE"
"""Environment variable that a process hands down to all that it starts."""

OPENED = "REGRAFT_OPENED"
"""Environment variable that names the file of what a process opens."""

PRINTED = 64 * 2**20
"""Bytes that a process may print to one file, which is cut back to nothing whenever it holds more."""

_ROUNDS = 20
"""Number of searches for processes of a cookie, which may start others meanwhile."""


class Process:
    """A Python module in a process, session and folder of its own.

    Its input ends when this process does, which `regraft.commands.sweeping.limited` takes for its own end.

    Args:
        module: what Python runs, with its arguments.
        folder: the folder that it runs in.
        room: folder of ``said``, ``complained`` and ``opened``: what it prints, and the files it opens.
        pass_on: descriptors that it inherits.

    Attributes:
        began: when it began, in nanoseconds by the clock of files, which may be behind.
        status: exit status, once it has ended.
        cpu: seconds of CPU, once it has ended.
        memory: the largest resident set in bytes, once it has ended.
    """

    def __init__(self, module: Sequence[str], folder: Path, room: Path, pass_on: Sequence[int] = ()) -> None:
        self._cookie = secrets.token_hex(8)
        self._files = [room / "said", room / "complained"]
        (room / "opened").touch()
        self.began = (room / "opened").stat().st_mtime_ns
        environment = {**os.environ, COOKIE: self._cookie, OPENED: str(room / "opened")}
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND  # so that it can be cut back
        with contextlib.ExitStack() as stack:
            said, complained = (os.open(file, flags, 0o600) for file in self._files)
            stack.callback(os.close, said)
            stack.callback(os.close, complained)
            self._process = subprocess.Popen(  # noqa: S603 - the suite names what it runs
                [sys.executable, "-P", "-m", *module],  # -P: no file of the folder is taken for a module
                cwd=folder,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=said,
                stderr=complained,
                start_new_session=True,
                pass_fds=tuple(pass_on),
            )
        self.status: int | None = None
        self.cpu, self.memory = 0.0, 0

    def write(self, line: str) -> None:
        """Give it a line; none is lost but on a process that has ended."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()

    def wait(
        self, seconds: float, done: Callable[[float], bool] = lambda pause: time.sleep(pause) or False
    ) -> bool:
        """Wait until it ends or `done` says so; False when it took too long.

        Args:
            seconds: by the clock.
            done: waits for at most the given seconds, and returns whether that is enough.
        """
        until = time.monotonic() + seconds
        pause = 0.005
        while True:
            if done(pause) or self._ended(os.WNOHANG):
                return True
            if time.monotonic() > until:
                return False
            for file in self._files:
                if file.stat().st_size > PRINTED:
                    os.truncate(file, 0)
            pause = min(pause * 1.5, 0.1)

    def end(self) -> None:
        """Kill it with all that it started, where it still runs."""
        with contextlib.suppress(ProcessLookupError, PermissionError):  # it is gone
            os.killpg(self._process.pid, signal.SIGKILL)
        if self._process.returncode is None:
            self._ended(0)
        for _ in range(_ROUNDS):
            if not _kill_by_cookie(self._cookie):
                break
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):  # what it did not read
                self._process.stdin.close()

    def _ended(self, options: int) -> bool:
        """Whether it has ended; then what it used is known."""
        if self._process.returncode is not None:
            return True
        pid, status, used = os.wait4(self._process.pid, options)
        if not pid:
            return False
        self.status = self._process.returncode = os.waitstatus_to_exitcode(status)
        self.cpu = used.ru_utime + used.ru_stime
        self.memory = used.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        return True


def _kill_by_cookie(cookie: str) -> bool:
    """Kill what left a process's group but not its environment; Linux tells, other systems do not."""
    wanted, found = f"{COOKIE}={cookie}\0".encode(), False
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):  # it has ended meanwhile, or is another user's
            if wanted in path.read_bytes():
                os.kill(int(path.parent.name), signal.SIGKILL)
                found = True
    return found
