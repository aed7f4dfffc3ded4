"""State of the whole process: calls of this library take turns and restore it."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import locale
import logging
import os
import random
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ..frontends.mindspore_cell.mixed_precision import precision_kept
from .signals import c_handler

_RECURSION = 10_000
"""The recursion limit that MindSpore sets when it is imported, and its compiler needs."""

_turn = threading.RLock()
_depth = 0

_LIBRARY = None if os.name == "nt" else ctypes.CDLL(None)
"""The functions of C that this process has."""

_ENVIRONMENT = 256
"""Bytes that are enough for C's `fenv_t`, of which x86 takes 32."""

State = tuple[Callable[[], Any], Callable[[Any], object]]
"""Functions that read a state and set it."""


@contextmanager
def preserve_process_state() -> Iterator[None]:
    """Restore the process's state after a block, one block at a time; also usable as a decorator.

    Frontends replace functions of the frameworks while they read a model, and models seed generators, set
    options and change the environment when they are imported: other threads that call in wait, and what they
    do meanwhile to the state itself is undone with the rest. A block within another one does nothing more.
    """
    global _depth
    with _turn:
        if _depth:
            yield
            return
        _depth += 1
        undo = [_kept(state) for state in _states()]
        if "mindspore" in sys.modules:
            sys.setrecursionlimit(max(sys.getrecursionlimit(), _RECURSION))
        try:
            with precision_kept():
                yield
        finally:
            _depth -= 1
            for restore in reversed(undo):  # MindSpore's first: setting it up changes some of the others
                restore()


def _kept(state: State) -> Callable[[], None]:
    read, write = state
    before = read()

    def restore() -> None:
        with contextlib.suppress(OSError, locale.Error):  # a folder that is gone
            write(before)

    return restore


def _states() -> Iterator[State]:
    yield random.getstate, random.setstate
    yield np.random.get_state, np.random.set_state
    yield np.geterr, lambda kept: np.seterr(**kept)
    yield np.geterrcall, np.seterrcall
    yield lambda: set(sys.path), _forget_paths
    yield np.get_printoptions, lambda kept: np.set_printoptions(**kept)
    yield lambda: dict(os.environ), _set_environment
    if hasattr(_LIBRARY, "fesetenv"):
        yield _float_environment, _LIBRARY.fesetenv
    yield lambda: (warnings.filters, list(warnings.filters)), _set_filters
    yield sys.getrecursionlimit, sys.setrecursionlimit
    yield gc.isenabled, lambda on: gc.enable() if on else gc.disable()
    yield os.getcwd, _changed(os.getcwd, os.chdir)
    yield (
        lambda: locale.setlocale(locale.LC_ALL),
        _changed(lambda: locale.setlocale(locale.LC_ALL), lambda kept: locale.setlocale(locale.LC_ALL, kept)),
    )
    for home, name in (
        (sys, "stdin"),
        (sys, "stdout"),
        (sys, "stderr"),
        (sys, "excepthook"),
        (sys, "unraisablehook"),
        (threading, "excepthook"),
        (warnings, "showwarning"),
        (warnings, "formatwarning"),
    ):
        yield _attribute(home, name)
    yield lambda: logging.root.manager.disable, lambda kept: logging.disable(kept)
    yield _loggers, _set_loggers
    if threading.current_thread() is threading.main_thread():
        yield _handlers, _set_handlers
    if "torch" in sys.modules:
        yield from _of_torch(sys.modules["torch"])
    if "mindspore" in sys.modules:
        yield from _of_mindspore(sys.modules["mindspore"])


def _float_environment() -> ctypes.Array[ctypes.c_char]:
    """Read how the processor computes floats in this thread.

    MindSpore's kernel of `ops.norm` (of an order but 2 and infinity) leaves it flushing numbers below 1e-38.
    """
    found = ctypes.create_string_buffer(_ENVIRONMENT)
    _LIBRARY.fegetenv(found)
    return found


def _changed(read: Callable[[], Any], write: Callable[[Any], object]) -> Callable[[Any], object]:
    """Return a setter that is called where the state is another."""
    return lambda kept: None if read() == kept else write(kept)


def _attribute(home: Any, name: str) -> State:
    return lambda: getattr(home, name), lambda kept: setattr(home, name, kept)


def _forget_paths(kept: set[str]) -> None:
    """Take MindSpore's own folder out of the path; what the user's files add, they import from later."""
    sys.path[:] = [p for p in sys.path if p in kept or Path(p).parent.name != "mindspore"]


def _set_environment(kept: dict[str, str]) -> None:
    for name in os.environ.keys() - kept.keys():
        del os.environ[name]
    for name, value in kept.items():
        if os.environ.get(name) != value:
            os.environ[name] = value


def _set_filters(kept: tuple[Any, list[Any]]) -> None:
    there, filters = kept
    if warnings.filters is not there or list(there) != filters:
        there[:] = filters
        warnings.filters = there
        warnings._filters_mutated()  # type: ignore[attr-defined] - what `catch_warnings` does too


def _loggers() -> dict[logging.Logger, tuple[Any, ...]]:
    known = [
        logging.root,
        *(v for v in logging.root.manager.loggerDict.values() if isinstance(v, logging.Logger)),
    ]
    return {each: (each.level, each.disabled, each.propagate, list(each.handlers)) for each in known}


def _set_loggers(kept: dict[logging.Logger, tuple[Any, ...]]) -> None:
    for logger, (level, disabled, propagate, handlers) in kept.items():
        if logger.level != level:
            logger.setLevel(level)
        logger.disabled, logger.propagate = disabled, propagate
        if logger.handlers != handlers:
            logger.handlers[:] = handlers


def _handlers() -> dict[int, Any]:
    return {number: (signal.getsignal(number), c_handler(number)) for number in signal.valid_signals()}


def _set_handlers(kept: dict[int, Any]) -> None:
    for number, (handler, before) in kept.items():
        if handler is not None and (signal.getsignal(number) is not handler or c_handler(number) != before):
            signal.signal(number, handler)


def _of_torch(torch: Any) -> Iterator[State]:
    yield torch.get_rng_state, torch.set_rng_state
    yield torch.get_default_dtype, torch.set_default_dtype
    yield torch.is_grad_enabled, torch.set_grad_enabled
    yield torch.get_num_threads, _changed(torch.get_num_threads, torch.set_num_threads)
    yield (
        lambda: (
            torch.are_deterministic_algorithms_enabled(),
            torch.is_deterministic_algorithms_warn_only_enabled(),
        ),
        lambda kept: torch.use_deterministic_algorithms(kept[0], warn_only=kept[1]),
    )
    yield (
        torch.get_float32_matmul_precision,
        _changed(torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    )
    yield torch.backends.mha.get_fastpath_enabled, torch.backends.mha.set_fastpath_enabled
    yield torch.get_default_device, _changed(torch.get_default_device, torch.set_default_device)


def _of_mindspore(mindspore: Any) -> Iterator[State]:
    def mode() -> int:
        return mindspore.get_context("mode")

    yield mode, _changed(mode, lambda kept: mindspore.set_context(mode=kept))
    seeds = sys.modules.get("mindspore.common.seed")  # `mindspore.set_seed` draws, and takes no None
    if hasattr(seeds, "_GLOBAL_SEED"):
        yield _attribute(seeds, "_GLOBAL_SEED")
    if hasattr(mindspore, "get_rng_state"):
        yield mindspore.get_rng_state, mindspore.set_rng_state
