"""Processes that run the cases of a corpus, limited in time and memory; one that dies is replaced."""

from __future__ import annotations

import multiprocessing
import resource
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

Run = Callable[..., list[str]]
"""Runs one case, named by its arguments, and gives what is wrong with it: nothing when it is right."""


def _serve(pipe: Connection, run: Run, memory: float) -> None:
    most = int(memory * 2**30)
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    while True:
        arguments = pipe.recv()
        try:
            found = run(*arguments)
        except Exception as error:  # whatever a case ends with is its result
            found = [f"{type(error).__name__}: {error}"]
        pipe.send(found)


class Worker:
    """A process that runs cases one after the other.

    Args:
        run: what runs one, a function of a module.
        timeout: seconds a case.
        memory: GiB of the process.
    """

    def __init__(self, run: Run, timeout: float, memory: float) -> None:
        self._run, self._timeout, self._memory = run, timeout, memory
        self._process: Any = None

    def run(self, *arguments: object) -> list[str]:
        """What is wrong with a case, nothing when it is right."""
        if self._process is None:
            context = multiprocessing.get_context("fork")
            self._pipe, far = context.Pipe()
            self._process = context.Process(target=_serve, args=(far, self._run, self._memory), daemon=True)
            self._process.start()
            far.close()
        self._pipe.send(arguments)
        if not self._pipe.poll(self._timeout):
            return self._ended(f"more than {self._timeout:g} s")
        try:
            return list(self._pipe.recv())
        except EOFError:
            return self._ended("the process died")

    def _ended(self, why: str) -> list[str]:
        self._process.kill()
        self._process.join()
        self._process = None
        return [why]
