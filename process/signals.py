"""The end of a command by a signal: at once, with its exit code, no traceback and nothing left half."""

from __future__ import annotations

import contextlib
import functools
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import ctypes

_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")

_PATIENCE = 0.5
"""Seconds after which code that does not return to Python, such as a compiler's, is not waited for."""


_GLANCE, _STARE = 0.05, 0.002
"""Seconds between looks at whether MindSpore has taken SIGINT, before and after it is imported.

It takes it for a few milliseconds at its first operators; a SIGTERM that comes just then reads as Ctrl-C.
"""

_POINTER = 8
_ignored: list[bool] = []


def end_on_signals() -> None:
    """Let Ctrl-C (130), SIGTERM (143) and SIGHUP (129) end this process; what ignores them stays.

    No KeyboardInterrupt is raised: frameworks catch it, and print it, in the middle of their imports.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    process, leave = os.getpid(), os._exit  # which is another's while a model's code may run

    def end(number: int, _frame: Any = None) -> None:
        if _ignored:  # it came while they were being ignored one after another
            return
        if os.getpid() == process:
            if number == signal.SIGTERM and "mindspore" in sys.modules and _is_replaced():
                number = signal.SIGINT
            _put_in_order(number)
        leave(128 + number)

    ours: list[int] = []
    for name in _SIGNALS:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, end)
            ours.append(number)
    if not ours:
        return
    told, tells = os.pipe()
    os.set_blocking(tells, False)
    signal.set_wakeup_fd(tells, warn_on_full_buffer=False)

    def watch() -> None:
        install = None
        while True:
            if select.select([told], [], [], _GLANCE if install is None else _STARE)[0]:
                for number in set(os.read(told, 16)) & set(ours):
                    time.sleep(_PATIENCE)  # the handler itself comes first, where Python code runs
                    end(number)
            if signal.SIGINT in ours and "mindspore" in sys.modules and not _ignored:
                install = install or _installer()
                install()

    threading.Thread(target=watch, daemon=True).start()


def ignore_signals() -> None:
    """Ignore further signals at the end, so that the exit code does not change."""
    if threading.current_thread() is threading.main_thread():
        _ignored.append(True)
        for name in _SIGNALS:
            if hasattr(signal, name):
                signal.signal(getattr(signal, name), signal.SIG_IGN)


def _is_replaced() -> bool:
    """Whether SIGINT has a handler in C that is not Python's, as SIGTERM has.

    MindSpore's first operator installs one that turns Ctrl-C into a SIGTERM to its own process.
    """
    return c_handler(signal.SIGINT) != c_handler(signal.SIGTERM)


def c_handler(number: int) -> bytes:
    """Return the address of the function that the operating system calls for a signal."""
    return _action(number)[:_POINTER]


def _installer() -> Callable[[], None]:
    """Return the function that reinstalls Python's SIGINT handler, from any thread unlike `signal.signal`."""
    import ctypes

    system, python = _system(), ctypes.create_string_buffer(_action(signal.SIGTERM))

    def install() -> None:
        if _is_replaced():
            system.sigaction(int(signal.SIGINT), python, None)

    return install


def _action(number: int) -> bytes:
    """Return the operating system's record of what a signal does; first of all the handler's address."""
    import ctypes

    found = ctypes.create_string_buffer(256)
    with contextlib.suppress(AttributeError, TypeError):  # Windows
        _system().sigaction(int(number), None, found)
    return found.raw


@functools.cache
def _system() -> ctypes.CDLL:
    """Return the C library; to open it is slow beside a call of it, and a load makes 128 calls."""
    import ctypes

    return ctypes.CDLL(None)


def _put_in_order(number: int) -> None:
    """Complete or undo a change of files, delete temporary ones, and give a terminal its cursor back."""
    for name in _SIGNALS:
        with contextlib.suppress(AttributeError, ValueError):  # Windows; another thread than the main one
            signal.signal(getattr(signal, name), signal.SIG_DFL)  # a second one does not wait
    abandon = getattr(
        sys.modules.get("regraft.ir.outside.own_folders"), "abandon", None
    )  # it may be half imported
    if abandon is not None:
        abandon()
    with contextlib.suppress(OSError):
        cursor = "\x1b[?25h\n" if os.isatty(2) else ""
        os.write(2, f"{cursor}{'interrupted' if number == signal.SIGINT else 'terminated'}\n".encode())
