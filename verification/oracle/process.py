"""Runs a script in a Python of another environment; it answers one JSON line each, in bounded time."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import time
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from ...ir import ModelError, UsageError
from ...ir.outside.own_folders import temporary_folder

_SHOWN = 4
"""Number of lines of a process's standard error in a message."""

_MOST = 64 << 20
"""Most bytes of an answer, which contains no arrays."""


class Process:
    """A script in another Python, isolated: no regraft, no current directory, no user's packages.

    Args:
        python: path of the interpreter.
        script: what it runs.
        timeout: seconds that an answer may take.
        environment: variables besides those of this process.

    Attributes:
        folder: an empty folder that is its current directory, and is gone when it is closed.

    Raises:
        UsageError: when there is no such interpreter (E001).
    """

    def __init__(
        self, python: str | Path, script: Path, *, timeout: float, environment: Mapping[str, str]
    ) -> None:
        self.python, self._timeout = str(python), timeout
        own = temporary_folder()
        self._scratch = weakref.finalize(self, own.remove)
        self.folder = own.path / "empty"
        self.folder.mkdir()
        self._errors: IO[bytes] = (self.folder / "stderr").open("w+b")
        try:
            self._process = subprocess.Popen(  # noqa: S603 - the user names it
                [self.python, "-I", "-B", str(script)],
                cwd=self.folder,
                env={**os.environ, **environment},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
            )
        except (OSError, ValueError) as error:
            self._clean()
            reason = getattr(error, "strerror", None) or str(error)
            raise UsageError(
                "E001",
                f"expected a Python interpreter with MXNet, but cannot start `{self.python}`: {reason}",
                hint="give --oracle the path of an interpreter, such as env/bin/python",
            ) from error

    def ask(self, question: Mapping[str, object]) -> dict[str, Any]:
        """Return the answer to a question.

        Raises:
            ModelError: when it answers with an error, ends, or takes too long (E702).
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(question).encode() + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            raise self._make_end_error() from error
        line = self._line()
        try:
            answer = json.loads(line)
        except ValueError as error:
            raise self._refusal("answered with no JSON") from error
        if not isinstance(answer, dict):
            raise self._refusal("answered with something else than an object")
        if "error" in answer:
            raise self._refusal(f"raised {next(iter(str(answer['error']).splitlines()), '')}", shown=False)
        return answer

    def close(self) -> None:
        """End it and remove its folder."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            try:
                if stream is not None:
                    stream.close()
            except OSError:  # what it did not read any more
                pass
        self._clean()

    def _line(self) -> bytes:
        """Return the next line of the answer, within the time and size allowed."""
        stream = self._process.stdout
        assert stream is not None
        until, found = time.monotonic() + self._timeout, bytearray()
        with selectors.DefaultSelector() as selector:
            selector.register(stream, selectors.EVENT_READ)
            while not found.endswith(b"\n"):
                left = until - time.monotonic()
                if left <= 0 or not selector.select(left):
                    self._process.kill()
                    raise self._refusal(f"gave no answer in {self._timeout:g} seconds")
                part = os.read(stream.fileno(), 1 << 16)
                found += part
                if not part:
                    raise self._make_end_error()
                if len(found) > _MOST:
                    self._process.kill()
                    raise self._refusal(f"gave an answer of more than {_MOST} bytes")
        return bytes(found)

    def _make_end_error(self) -> ModelError:
        self._process.wait()
        return self._refusal(f"ended with code {self._process.returncode}")

    def _refusal(self, what: str, *, shown: bool = True) -> ModelError:
        self._errors.flush()
        text = (self.folder / "stderr").read_bytes()[-(1 << 14) :].decode("utf-8", "replace")
        last = [line for line in text.splitlines() if line.strip()][-_SHOWN:] if shown else []
        return ModelError(
            "E702",
            f"MXNet in `{self.python}` {what}" + (f": {' | '.join(last)}" if last else ""),
            hint=f"it needs `{self.python} -I -c 'import mxnet'` to work"
            if "No module named" in f"{what}{text}"
            else "",
        )

    def _clean(self) -> None:
        self._errors.close()
        self._scratch()
