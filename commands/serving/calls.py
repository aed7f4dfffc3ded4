"""The command lines of a server's tools, and running one in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import anyio
import anyio.abc

_TOLD = 2000
"""Characters of standard error that a call without a document returns."""


def options(values: Mapping[str, Any]) -> list[str]:
    """Return options as one argument each, ``--name=value``: no value can be taken for another option."""
    found: list[str] = []
    for name, value in values.items():
        if value is True:
            found.append(f"--{name}")
        elif isinstance(value, (list, tuple)):
            found += [f"--{name}={each}" for each in value]
        elif value is not None and value is not False:
            found.append(f"--{name}={value}")
    return found


async def run(arguments: Sequence[str], folder: str, timeout: float) -> tuple[int, dict[str, Any]]:
    """Run a command line and return its exit code and its document.

    The model's code prints to the process's own pipes, so that it cannot write into the protocol.

    Args:
        arguments: the command with its arguments, which has --json.
        folder: the working directory.
        timeout: seconds after which it is ended.
    """
    # -P: a folder that holds a module of the name of one of ours does not take its place
    command = [sys.executable, "-P", "-m", "regraft", "--lang=en", *arguments]
    process = await anyio.open_process(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=folder,
        start_new_session=True,
    )
    pieces: dict[str, bytes] = {}

    async def read(name: str, stream: anyio.abc.ByteReceiveStream | None) -> None:
        pieces[name] = b"".join([chunk async for chunk in stream] if stream is not None else [])

    try:
        with anyio.move_on_after(timeout) as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(read, "out", process.stdout)
                tasks.start_soon(read, "err", process.stderr)
                await process.wait()
        if scope.cancelled_caught:
            return 2, _error(f"the call took longer than {timeout:g} s", "regraft mcp --timeout allows more")
    finally:
        _end(process.pid)
        with anyio.CancelScope(shield=True):
            await process.aclose()
    try:
        document = json.loads(pieces["out"])
    except ValueError:
        told = pieces["err"].decode("utf-8", "replace").strip()[-_TOLD:]
        return 3, _error(f"the command gave no document: {told}", "")
    return process.returncode or 0, document if isinstance(document, dict) else {"rows": document}


def _error(message: str, hint: str) -> dict[str, Any]:
    return {"error": {"code": "E001", "message": message, "hint": hint}}


def _end(group: int) -> None:
    """End what a call has started, its children too."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
