"""What every input must lead to: exit code 0, 1 or 2, one error with a place, bounded time and memory."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import signal
import sys
import traceback
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .mutation import MARK
from .registry import Target

SECONDS = 10.0
BYTES = 1 << 30
_CODE = re.compile(r"^error [A-Z]+\d\d\d ", re.MULTILINE)
_NO_MEMORY = re.compile("not enough memory|bad_alloc|[Ff]ailed to allocate|allocate memory")
_NO_THREAD = "pthread_create failed, error code: 12 error msg: Cannot allocate memory"
"""What ONNX Runtime says where a worker's own limit leaves no room for a thread: no input asked for that."""
_LONGEST = 20_000
"""Characters that an error may have; no name of the input makes it longer."""


@dataclass(frozen=True)
class Fault:
    """What an input led to that it must not.

    Attributes:
        kind: "exception", "exit", "time", "memory", "written", "executed", "message", "killed".
        what: one line that is the same for every input with the same cause.
        detail: the traceback or the output.
    """

    kind: str
    what: str
    detail: str = ""

    @property
    def key(self) -> str:
        """What tells faults apart."""
        return f"{self.kind}: {self.what}"


class TooLongError(BaseException):
    """The time of one input is over. No `Exception`, so that no handler takes it for one of the model's."""


def command(*arguments: object) -> int:
    """`regraft ARGUMENTS` in this process: its exit code.

    Raises:
        Exception: whatever would have ended with exit code 3.
    """
    from regraft.cli import invoke

    return invoke([str(a) for a in arguments])


def attempt(target: Target, data: bytes, folder: Path, seconds: float = SECONDS) -> tuple[int, Fault | None]:
    """(exit code, fault) of one input, in an empty folder that is the working directory meanwhile."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "given").mkdir(parents=True)
    before = Path.cwd()
    resident = _reset_peak()
    fault: Fault | None = None
    code = 3
    with _captured() as (out, err):
        os.chdir(folder)
        try:
            with _limited(seconds):
                code = target.run(data, folder)
        except TooLongError as late:
            fault = Fault("time", _frames(late), traceback.format_exc()[-4000:])
        except MemoryError as error:
            fault = Fault("memory", _frames(error), traceback.format_exc()[-4000:])
        except Exception as error:  # what the command line would call a fault of ours
            fault = Fault(
                "exception", f"{type(error).__name__} {_frames(error)}", traceback.format_exc()[-6000:]
            )
        finally:
            os.chdir(before)
    if fault is None:
        grown = _peak() - resident
        if grown > BYTES:
            fault = Fault("memory", f"{target.name} grew by more than {BYTES >> 20} MB", f"{grown >> 20} MB")
        else:
            fault = _judge(code, out(), err(), folder)
    return code, fault


def _judge(code: int, out: str, err: str, folder: Path) -> Fault | None:
    names = [p.name for p in folder.rglob("*")]
    if any(MARK in name and name == MARK for name in names):
        return Fault("executed", "the input ran", err[-2000:])
    if code not in (0, 1, 2):
        return Fault("exit", f"exit code {code}", err[-2000:])
    asked = err.replace(_NO_THREAD, "")
    if _NO_MEMORY.search(asked) and "the model's code raised" not in err:
        return Fault("memory", "memory was asked for that there is not", err[-2000:])
    text = out + err
    odd = {
        f"U+{ord(c):04X}"
        for c in text
        if c not in "\n\t" and unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")
    }
    if odd:
        return Fault(
            "message",
            f"control characters in {'the error' if code == 2 else 'the output'}",
            f"{sorted(odd)}\n{text[:2000]!r}",
        )
    if code == 2:
        usage = len(re.findall("^Error: ", err, re.MULTILINE)) == 1
        if not usage and len(_CODE.findall(err)) != 1:
            return Fault("message", "not one error with a code", err[-2000:])
        if len(err) > _LONGEST:
            return Fault("message", f"an error of more than {_LONGEST} characters: {err[:60]!r}", err[:2000])
        left = (
            sorted(str(p.relative_to(folder)) for p in (folder / "out").rglob("*"))
            if (folder / "out").exists()
            else []
        )
        if left or any(p.name.startswith(".regraft") for p in folder.rglob("*")):
            return Fault("written", "a failure left files behind", f"{left}\n{err[-2000:]}")
    return None


def _frames(error: BaseException) -> str:
    """The innermost lines of ours in a traceback: what tells causes apart."""
    ours = [
        f
        for f in traceback.extract_tb(error.__traceback__)
        if "regraft/" in f.filename and "/tests/" not in f.filename
    ]
    shown = [f"{'/'.join(Path(f.filename).parts[-2:])}:{f.name}" for f in ours[-2:]]
    return " < ".join(reversed(shown))


@contextlib.contextmanager
def _limited(seconds: float) -> Iterator[None]:
    def late(_signal: int, _frame: object) -> None:
        raise TooLongError

    # of the processor, as the machine may be busy, and of the wall, for what waits
    wall = (signal.ITIMER_REAL, signal.SIGALRM, 6 * seconds)
    clocks = ((signal.ITIMER_PROF, signal.SIGPROF, seconds), wall)
    before = [signal.signal(number, late) for _, number, _ in clocks]
    for (
        clock,
        _,
        most,
    ) in clocks:  # of the processor, as the machine may be busy, and of the wall, for what waits
        signal.setitimer(clock, most, 1.0)  # again, where the first is lost in C
    try:
        yield
    finally:
        for (clock, number, _), previous in zip(clocks, before, strict=True):
            signal.setitimer(clock, 0)
            signal.signal(number, previous)


@contextlib.contextmanager
def _captured() -> Iterator[tuple]:
    """Standard output and error as a terminal would get them: bytes, which surrogates are not."""
    streams = [
        io.TextIOWrapper(io.BytesIO(), "utf-8", errors=e, write_through=True)
        for e in ("strict", "backslashreplace")
    ]
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = streams

    def read(stream: io.TextIOWrapper) -> str:
        return stream.buffer.getvalue().decode("utf-8", "replace")  # type: ignore[attr-defined] - a BytesIO

    try:
        yield lambda: read(streams[0]), lambda: read(streams[1])
    finally:
        sys.stdout, sys.stderr = before


def _reset_peak() -> int:
    """Forget the largest memory so far; what is resident now."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return status("VmRSS")


def _peak() -> int:
    return status("VmHWM")


def status(key: str) -> int:
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith(key):
                return int(line.split()[1]) << 10
    except OSError:  # not Linux
        pass
    return 0
